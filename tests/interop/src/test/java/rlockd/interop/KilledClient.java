package rlockd.interop;

import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.redisson.api.RedissonClient;

/** A client in a process of its own that takes something, keeps it, and never lets go. */
final class KilledClient {
    static final long SESSION_MS = 1500;

    private KilledClient() {
    }

    /** How to take it; made anew in that process, by a constructor without arguments. */
    interface Holding {
        void hold(RedissonClient client, String name) throws Exception;

        void hold(Rest front, Session session, String name);
    }

    /** Returns when it holds. */
    static Process java(Holding object, World world, String name) throws Exception {
        return start(object, "java", "" + world.redisPort, name);
    }

    /** The same; its session is kept alive. */
    static Process rest(Holding object, World world, String name) throws Exception {
        return start(object, "rest", world.front.base.toString(), name);
    }

    private static Process start(Holding object, String side, String server, String name)
        throws Exception {
        Path output = Files.createTempFile("rlockd-interop-", ".log");
        Process process = Processes.start(output, List.of(
            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
            "-Dinterop.dir=" + System.getProperty("interop.dir"),
            "-cp", System.getProperty("java.class.path"),
            KilledClient.class.getName(), object.getClass().getName(), side, server, name));
        try {
            Interop.eventually("it holds", 30_000, () -> read(output).contains("holds\n"),
                () -> read(output));
        } finally {
            Files.delete(output);
        }
        return process;
    }

    private static String read(Path output) {
        try {
            return Files.readString(output);
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    public static void main(String[] args) throws Exception {
        String side = args[1];
        String server = args[2];
        String name = args[3];
        Holding object = (Holding) Class.forName(args[0])
            .getDeclaredConstructor().newInstance();
        if (side.equals("java")) {
            object.hold(World.newClient(Integer.parseInt(server), ""), name);
        } else {
            Rest front = new Rest(URI.create(server));
            Session session = new Session(front, SESSION_MS).keptAlive(SESSION_MS / 4);
            object.hold(front, session, name);
        }
        System.out.println("holds");
        Thread.sleep(Long.MAX_VALUE);
    }
}
