"""Runs test functions, several at a time, and prints what cmocka would print, for run.sh."""
import concurrent.futures
import os
import signal
import sys
import time
import traceback

AT_A_TIME = int(os.environ.get("COMMAND_JOBS", "10"))


def run_one(title, test):
    begun = time.monotonic()
    try:
        test()
    except Exception:  # noqa: whatever it is, the test has failed
        return title, traceback.format_exc(), time.monotonic() - begun
    return title, None, time.monotonic() - begun


def run_all(tests):
    """`tests`: title -> function. Ends the process."""
    # A job in the background has them ignored, and so would the programs of the tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = {title: test for title, test in tests.items() if only in title}
    failed = []
    print(f"[==========] Running {len(chosen)} test(s).", flush=True)
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        futures = [pool.submit(run_one, *item) for item in chosen.items()]
        for future in concurrent.futures.as_completed(futures):
            title, problem, seconds = future.result()
            if problem:
                failed.append(title)
                print(problem, end="")
            verdict = "  FAILED  " if problem else "       OK "
            print(f"[{verdict}] {title}" + ("" if problem else f"  {seconds:.1f} s"),
                  flush=True)
    print(f"[  PASSED  ] {len(chosen) - len(failed)} test(s).")
    if failed:
        print(f"[  FAILED  ] {len(failed)} test(s), listed below:")
        for title in failed:
            print(f"[  FAILED  ] {title}")
    sys.exit(bool(failed) or not chosen)
