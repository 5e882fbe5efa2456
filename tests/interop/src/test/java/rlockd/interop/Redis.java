package rlockd.interop;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** A connection to one server: for what the clients under test would not ask that one for. */
final class Redis {
    private final Socket socket;
    private final InputStream input;

    Redis(String host, int port) {
        try {
            socket = new Socket(host, port);
            input = new BufferedInputStream(socket.getInputStream());
        } catch (IOException e) {
            throw new UncheckedIOException(host + ":" + port, e);
        }
    }

    /** Whether a server listens there that has read its data. */
    static boolean answers(String host, int port) {
        try {
            return new Redis(host, port).ask("PING").equals("PONG");
        } catch (UncheckedIOException | IllegalStateException e) {
            return false;
        }
    }

    /** Text, a Long, a list of such, or null. */
    synchronized Object ask(String... words) {
        try {
            ByteArrayOutputStream command = new ByteArrayOutputStream();
            command.writeBytes(("*" + words.length + "\r\n").getBytes());
            for (String word : words) {
                byte[] bytes = word.getBytes(StandardCharsets.UTF_8);
                command.writeBytes(("$" + bytes.length + "\r\n").getBytes());
                command.writeBytes(bytes);
                command.writeBytes("\r\n".getBytes());
            }
            socket.getOutputStream().write(command.toByteArray());
            return reply();
        } catch (IOException e) {
            throw new UncheckedIOException(String.join(" ", words), e);
        }
    }

    private Object reply() throws IOException {
        String line = line();
        String rest = line.substring(1);
        return switch (line.charAt(0)) {
            case '+' -> rest;
            case ':' -> Long.parseLong(rest);
            case '$' -> bulk(Integer.parseInt(rest));
            case '*' -> list(Integer.parseInt(rest));
            default -> throw new IllegalStateException(rest);
        };
    }

    private String line() throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int next = input.read(); next != '\r'; next = input.read()) {
            if (next < 0) {
                throw new IOException("the connection ended");
            }
            line.write(next);
        }
        input.skipNBytes(1);
        return line.toString(StandardCharsets.UTF_8);
    }

    private String bulk(int length) throws IOException {
        if (length < 0) {
            return null;
        }
        String text = new String(input.readNBytes(length), StandardCharsets.UTF_8);
        input.skipNBytes(2);
        return text;
    }

    private List<Object> list(int length) throws IOException {
        List<Object> list = new ArrayList<>();
        for (int i = 0; i < length; i++) {
            list.add(reply());
        }
        return list;
    }
}
