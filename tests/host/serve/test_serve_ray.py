"""Two replicas under Ray Serve: one is killed under load, and no request is lost."""

import json
import socket
import threading
import time

import httpx
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ray = pytest.importorskip("ray", reason="Ray (extra `ray`) is not installed")
PAUSE = (
    0.1  # seconds between requests of a client, so that the rate depends on who answers, not on the machine
)
BODY = {"prompt": "In the beginning", "max_tokens": 24, "temperature": 0}


@pytest.fixture(scope="module")
def address():
    from ray import serve

    from symlight.host.serve.ray_app import build

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ray.init(num_cpus=4, include_dashboard=False, resources={"symlight_device": 2}, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    serve.run(build(replicas=2, resource="symlight_device", cpus=0.5))
    yield f"http://127.0.0.1:{port}"
    serve.shutdown()
    ray.shutdown()


class Load:
    """Clients that send requests until they are told to stop; streams and whole answers in turns."""

    def __init__(self, address: str, clients: int, expected: str):
        self.ends, self.wrong, self._stop, self._expected = [], [], threading.Event(), expected
        self._threads = [threading.Thread(target=self._run, args=(address, n)) for n in range(clients)]
        for thread in self._threads:
            thread.start()

    def _run(self, address: str, number: int) -> None:
        with httpx.Client(base_url=address, timeout=120) as client:
            stream = number % 2 == 0
            while not self._stop.is_set():
                body = BODY | {"stream": stream}
                try:
                    answer = client.post(
                        "/v1/completions", json=body, headers={"X-Conversation": f"c{number}"}
                    )
                    text = _text(answer, stream)
                except (httpx.HTTPError, KeyError, ValueError) as error:
                    text = repr(error)
                self.ends.append(time.monotonic())
                self._stop.wait(PAUSE)
                if text != self._expected:
                    self.wrong.append(text)

    def finish(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)


def _text(answer: httpx.Response, stream: bool) -> str:
    if not stream:
        return answer.json()["choices"][0]["text"]
    events = answer.text.split("\n\n")
    assert events[-2] == "data: [DONE]"
    return "".join(json.loads(event[6:])["choices"][0]["text"] for event in events[:-2])


@pytest.mark.parametrize("stream", [False, True])
def test_refusals_come_through(address, stream):
    answer = httpx.post(f"{address}/v1/completions", json=BODY | {"stream": stream, "n": 0}, timeout=60)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "n"


def test_a_killed_replica_loses_no_request(address):
    import symlight

    with symlight.open_model("demo", device="reference") as model:
        expected = model.complete(BODY["prompt"], max_new_tokens=BODY["max_tokens"]).text
    load = Load(address, 6, expected)
    time.sleep(10)
    actors = [
        one for one in ray.util.list_named_actors(all_namespaces=True) if "DeviceReplica" in one["name"]
    ]
    assert len(actors) == 2
    killed = time.monotonic()
    ray.kill(ray.get_actor(actors[0]["name"], actors[0]["namespace"]), no_restart=True)
    time.sleep(40)
    load.finish()
    assert load.wrong == []
    before = sum(killed - 8 < end < killed for end in load.ends) / 8
    after = sum(killed + 30 < end < killed + 38 for end in load.ends) / 8
    seconds = [sum(killed + n <= end < killed + n + 1 for end in load.ends) for n in range(30)]
    back = next((n for n, count in enumerate(seconds) if count > 0.5 * before), None)
    print(f"{len(load.ends)} answers; {before:.1f} a second before, {after:.1f} from 30 s after the kill on")
    print(f"above half of the rate again {back} s after the kill; answers by second: {seconds}")
    assert after > 0.5 * before
