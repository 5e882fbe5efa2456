package rlockd.interop;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.TestWatcher;

/** Writes down what became of each test: run.sh makes the matrix of it. */
final class Report implements TestWatcher {
    private static final Path DIR = Path.of(System.getProperty("interop.dir"));

    @Override
    public void testSuccessful(ExtensionContext context) {
        cell(context, "passed");
    }

    @Override
    public void testFailed(ExtensionContext context, Throwable cause) {
        cell(context, "failed");
    }

    @Override
    public void testAborted(ExtensionContext context, Throwable cause) {
        cell(context, "skipped");
        line("skipped.txt", context.getDisplayName() + ": " + cause.getMessage());
    }

    private static void cell(ExtensionContext context, String outcome) {
        String object = context.getTestInstance()
            .map(test -> ((Interop) test).object())
            .orElse(context.getRequiredTestClass().getSimpleName());
        String direction = context.getTags().stream().findFirst().orElse("?");
        line("cells.tsv", object + "\t" + direction + "\t" + outcome + "\t"
            + context.getDisplayName());
    }

    static synchronized void line(String file, String text) {
        try {
            Files.writeString(DIR.resolve(file), text + "\n",
                StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
