"""`python -m symlight.tools.replica_bench`: two Ray replicas beside one, in turns; benchmarks/serve.json.

Every round deploys each number of replicas once, each replica with a thread of its own, and loads it with the
same clients and requests. Everything shares one machine: the replicas, the clients, and Ray's own processes.
`processors_used` says how many processors each of them kept busy. Where they come to all that there are, a
second replica has none to run on.
"""

import argparse
import json
import os
import platform
import socket
import statistics
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import ray
from ray import serve

from symlight.base.files import write_whole
from symlight.base.provenance import commit
from symlight.host.bench.serve_load import Load, mixed_asks
from symlight.host.library.model import open_model
from symlight.host.serve.ray_app import DeviceReplica, build

from .serve_bench import DEMO, LARGE, LONGEST, alone, large_package, loaded

REPLICAS = (1, 2)
RESOURCE = "symlight_device"
PARTS = ("replicas", "ray", "clients")
# In the names that Ray gives to processes.
REPLICA: bytes = DeviceReplica.name.encode()  # type: ignore[attr-defined]  # Ray's Deployment
PROC = Path("/proc")


def processor_seconds() -> dict[str, float]:
    """Processor time so far of this process ("clients"), of the replicas below it, and of Ray's others."""
    seconds = dict.fromkeys(PARTS, 0.0)
    parents, spent, names = {}, {}, {}
    for folder in PROC.glob("[0-9]*"):
        with suppress(OSError):  # a process that has ended
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            number = int(folder.name)
            parents[number], spent[number] = int(words[1]), sum(map(int, words[11:13]))
            names[number] = (folder / "cmdline").read_bytes()
    for number in spent:
        above = number
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid():
            part = "clients" if number == above else "replicas" if REPLICA in names[number] else "ray"
            seconds[part] += spent[number] / os.sysconf("SC_CLK_TCK")
    return seconds


def measured(package: str, rounds: int, seconds: float, clients: int) -> list[list[dict]]:
    """What came of every round, by REPLICAS; every text is compared."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ray.init(
        num_cpus=2 * max(REPLICAS), include_dashboard=False, resources={RESOURCE: max(REPLICAS)},
        log_to_driver=False,
    )  # fmt: skip
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    found: list[list[dict]] = []
    try:
        with open_model(package, device=alone(package)) as model:
            for number in range(rounds):
                asks = mixed_asks(48, number + 1, LONGEST, model)
                found.append([])
                for replicas in REPLICAS:
                    serve.run(build(model=package, replicas=replicas, resource=RESOURCE, cpus=0.5))
                    load = Load(url=f"http://127.0.0.1:{port}", clients=clients, seconds=seconds)
                    loaded(load, asks, 2.0)  # the replicas have seen the conversations
                    before = processor_seconds()
                    one = loaded(load, asks)
                    after = processor_seconds()
                    one["processors_used"] = {
                        name: round((after[name] - before[name]) / one["seconds"], 3) for name in PARTS
                    }
                    one["replicas"] = replicas
                    found[-1].append(one)
                    serve.delete("default")
                rates = (f"{one['replicas']} replicas: {one['requests_per_second']}/s" for one in found[-1])
                print(*rates, sep=", ", flush=True)
    finally:
        serve.shutdown()
        ray.shutdown()
    return found


def summary(rounds: Sequence[Sequence[dict]]) -> dict:
    """Medians by replicas, and the ratio of two to one."""
    ratios = [round(one[-1]["requests_per_second"] / one[0]["requests_per_second"], 3) for one in rounds]
    medians = {
        str(count): {
            name: statistics.median(one[index][name] for one in rounds)
            for name in ("requests_per_second", "tokens_per_second_at_most")
        }
        | {
            f"processors_used_by_{part}": statistics.median(
                one[index]["processors_used"][part] for one in rounds
            )
            for part in PARTS
        }
        for index, count in enumerate(REPLICAS)
    }
    name = f"replicas_{REPLICAS[-1]}_over_{REPLICAS[0]}"
    return {
        "medians": medians,
        "ratios": {name: statistics.median(ratios)},
        "ratios_by_round": {name: ratios},
        "rounds": rounds,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/serve.json"))
    parser.add_argument("--build", type=Path, default=Path("build/serve"), help="where the large package is")
    parser.add_argument("--model", choices=(DEMO, LARGE), default=LARGE)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each load")
    parser.add_argument("--clients", type=int, default=8)
    values = parser.parse_args(arguments)
    package = DEMO if values.model == DEMO else str(large_package(values.build).resolve())
    rounds = measured(package, values.rounds, values.seconds, values.clients)
    known = json.loads(values.out.read_text(encoding="utf-8")) if values.out.exists() else {}
    known.setdefault("replicas", {})[values.model] = {
        "commit": commit(),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors",
        "clients": values.clients,
        **summary(rounds),
    }
    write_whole(values.out, json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
