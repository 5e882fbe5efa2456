package rlockd.interop;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** Child processes that die with this JVM, also when it is killed. */
final class Processes {
    /** The kernel's "parent" is the thread that started a child, so that one has to last. */
    private static final ExecutorService KEEPER = Executors.newSingleThreadExecutor(task -> {
        Thread thread = new Thread(task, "keeper of children");
        thread.setDaemon(true);
        return thread;
    });

    private Processes() {
    }

    /** Starts it with stdout and stderr in `output`. */
    static Process start(Path output, List<String> command) {
        List<String> argv = new ArrayList<>(List.of("setpriv", "--pdeathsig", "KILL", "--"));
        argv.addAll(command);
        ProcessBuilder builder = new ProcessBuilder(argv)
            .redirectErrorStream(true).redirectOutput(output.toFile());
        builder.environment().keySet().removeIf(
            name -> name.startsWith("RLOCKD_") || name.equals("JAVA_TOOL_OPTIONS"));
        try {
            Process process = KEEPER.submit(builder::start).get();
            Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(process)));
            return process;
        } catch (ExecutionException | InterruptedException e) {
            throw new IllegalStateException("cannot start " + command, e);
        }
    }

    private static void stop(Process process) {
        process.destroy();
        try {
            if (!process.waitFor(5, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
        }
    }

    /** kill -9, and gone when this returns. */
    static void kill(Process process) throws InterruptedException {
        process.destroyForcibly().waitFor();
    }
}
