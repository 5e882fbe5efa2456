package rlockd.interop;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Semaphore;
import org.redisson.api.RedissonClient;

/** A client in a process of its own that takes something, keeps it, and never lets go. */
final class KilledClient {
    /** A JVM takes long to start where several do. */
    private static final Semaphore STARTS = new Semaphore(2);
    private static final Map<Holding, List<Process>> STARTED = new ConcurrentHashMap<>();

    private KilledClient() {
    }

    /** How to take it; made anew in that process, by a constructor without arguments. */
    interface Holding {
        void hold(RedissonClient client, String name) throws Exception;

        void hold(Rest front, Session session, String name);
    }

    /** Returns when it holds. */
    static Process java(Holding object, World world, String name) throws Exception {
        return start(object, "java", world.topology.text(), name);
    }

    /** The same; its session is kept alive. */
    static Process rest(Holding object, World world, String name) throws Exception {
        return start(object, "rest", world.front.base.toString(), name);
    }

    /** Kills those that a test which failed did not kill. */
    static void killRest(Object test) {
        List<Process> started = STARTED.remove(test);
        if (started != null) {
            started.forEach(Process::destroyForcibly);
        }
    }

    private static Process start(Holding object, String side, String server, String name)
        throws Exception {
        STARTS.acquire();
        try {
            return startAlone(object, side, server, name);
        } finally {
            STARTS.release();
        }
    }

    private static Process startAlone(Holding object, String side, String server, String name)
        throws Exception {
        Path output = Files.createTempFile("rlockd-interop-", ".log");
        Process process = Processes.start(output, List.of(
            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
            "-Dinterop.dir=" + System.getProperty("interop.dir"),
            "-cp", System.getProperty("java.class.path"),
            KilledClient.class.getName(), object.getClass().getName(), side, server, name));
        STARTED.computeIfAbsent(object, test -> new CopyOnWriteArrayList<>()).add(process);
        try {
            Interop.eventually("it holds", Interop.CONDITION_MS,
                () -> !process.isAlive() || read(output).contains("holds\n"),
                () -> read(output));
            assertTrue(process.isAlive(), () -> read(output));
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
            object.hold(World.newClient(Topology.of(server), 0, ""), name);
        } else {
            Rest front = new Rest(URI.create(server), null);
            new Session(front, Interop.LEASE_MS).end(); // loads what a first request takes
            Session session = new Session(front, Interop.SESSION_MS)
                .keptAlive(Interop.SESSION_MS / 6);
            object.hold(front, session, name);
        }
        System.out.println("holds");
        Thread.sleep(Long.MAX_VALUE);
    }
}
