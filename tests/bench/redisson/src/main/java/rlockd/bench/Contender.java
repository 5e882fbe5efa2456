package rlockd.bench;

/** One thread that takes and releases in a tight loop. */
final class Contender extends Thread {
    final Samples waits = new Samples();
    final Samples releases = new Samples();
    /** Since when the turn is waited for; 0: the thread has the turn. */
    volatile long askedNs;
    volatile Exception failure;
    private final Contest contest;
    private final Turn turn;

    Contender(Contest contest, Turn turn) {
        this.contest = contest;
        this.turn = turn;
        setDaemon(true);
    }

    @Override
    public void run() {
        try {
            while (contest.phase != Contest.Phase.STOPPED) {
                takeTurn();
            }
        } catch (InterruptedException e) {
            failure = contest.phase == Contest.Phase.STOPPED ? null : e;
        } catch (Exception e) {
            failure = e;
        }
    }

    private void takeTurn() throws Exception {
        long asked = System.nanoTime();
        askedNs = asked;
        turn.take();
        long taken = System.nanoTime();
        askedNs = 0;
        if (contest.phase == Contest.Phase.WINDOW) {
            waits.add(taken - asked);
        }
        turn.give();
        if (contest.phase == Contest.Phase.WINDOW) {
            releases.add(System.nanoTime() - taken);
        }
    }
}
