"""Several things at once."""
import threading


def run_in_threads(*works):
    """Runs functions in threads of their own; the first exception of any is raised."""
    faults = []

    def run(work):
        try:
            work()
        except Exception as fault:      # pylint: disable=broad-except
            faults.append(fault)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
