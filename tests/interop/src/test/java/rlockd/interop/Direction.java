package rlockd.interop;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Tests, and the row of the matrix that they count for. */
final class Direction {
    private Direction() {
    }

    /** What a Java client does is felt by a REST client. */
    @Test
    @Tag(JavaToRest.TAG)
    @Target(ElementType.METHOD)
    @Retention(RetentionPolicy.RUNTIME)
    @interface JavaToRest {
        String TAG = "java-to-rest";
    }

    /** What a REST client does is felt by a Java client. */
    @Test
    @Tag(RestToJava.TAG)
    @Target(ElementType.METHOD)
    @Retention(RetentionPolicy.RUNTIME)
    @interface RestToJava {
        String TAG = "rest-to-java";
    }

    /** Both at once. */
    @Test
    @Tag(BothWays.TAG)
    @Target(ElementType.METHOD)
    @Retention(RetentionPolicy.RUNTIME)
    @interface BothWays {
        String TAG = "both-ways";
    }
}
