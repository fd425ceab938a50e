"""A Belfry worker in plain Python: the whole wire protocol, no library of ours, one function.

BELFRY_URL=http://127.0.0.1:4680 BELFRY_TOKEN=bfy_... python3 worker.py
"""
import json, os, signal, threading, time, urllib.error, urllib.request

BASE = os.environ["BELFRY_URL"] + "/v1"
HEADERS = {"Authorization": "Bearer " + os.environ["BELFRY_TOKEN"], "Content-Type": "application/json"}
stopping = threading.Event()


def call(path, body):
    request = urllib.request.Request(BASE + path, json.dumps(body).encode(), HEADERS)
    with urllib.request.urlopen(request, timeout=40) as answer:
        return json.loads(answer.read() or b"null")


def shout(text):  # the function: what a run of the job "python.shout" does with its input
    return {"shouted": text.upper()}


FUNCTIONS = {"python.shout": shout}


def attempt(run):
    started, name = time.monotonic(), {"runId": run["runId"], "leaseEpoch": run["leaseEpoch"]}
    try:
        end = {"outcome": "succeeded", "result": FUNCTIONS[run["function"]](run["input"])}
    except Exception as error:
        end = {"outcome": "failed", "error": {"code": type(error).__name__, "message": str(error)}}
    return {**name, **end, "durationMs": int((time.monotonic() - started) * 1000)}


def beat(worker):
    while not stopping.wait(worker["heartbeatMs"] / 1000):
        try:
            call(f"/workers/{worker['id']}/heartbeat", {})
        except OSError:
            pass  # the lease outlives a few of these


def serve():
    call("/functions", {"jobs": [{"name": name, "queue": "python"} for name in FUNCTIONS]})
    worker = call("/workers", {"functions": list(FUNCTIONS), "queues": ["python"], "slots": 10})
    threading.Thread(target=beat, args=[worker], daemon=True).start()
    print("ready", flush=True)
    while not stopping.is_set():
        runs = call(f"/workers/{worker['id']}/claim", {"max": 10, "waitMs": 1000})["runs"]
        if runs:
            call(f"/workers/{worker['id']}/complete", {"ends": [attempt(run) for run in runs]})
    call(f"/workers/{worker['id']}/close", {})


signal.signal(signal.SIGTERM, lambda *_: stopping.set())
while not stopping.is_set():
    try:
        serve()
    except OSError as error:  # the server is away, or the session is over (409): begin again
        print(error, flush=True)
        stopping.wait(1)
