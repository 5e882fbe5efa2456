package rlockd.bench;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Contend PORT: Redisson's client with its default settings on the Redis at that port. Takes
 * commands from standard input, a line each, and answers each with a line:
 * start KIND NAME THREADS, measure (the window begins), stop (the window ends; one line of JSON).
 */
public final class Contend {
    private static Contest contest;

    private Contend() {
    }

    private static String run(RedissonClient client, String[] words) throws Exception {
        switch (words[0]) {
            case "start":
                contest = new Contest(client, words[1], words[2], Integer.parseInt(words[3]));
                return "started";
            case "measure":
                contest.measure();
                return "measuring";
            case "stop":
                return contest.stop();
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + args[0]);
        RedissonClient client = Redisson.create(config);
        System.out.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        try {
            for (String line; (line = commands.readLine()) != null;) {
                System.out.println(run(client, line.split(" ")));
            }
        } catch (Exception e) { // the client's threads would keep the process alive
            e.printStackTrace();
            System.exit(1);
        }
        client.shutdown();
    }
}
