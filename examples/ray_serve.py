"""Many devices at one address, with Ray Serve.

    pip install 'symlight[ray]'
    python examples/ray_serve.py --replicas 2 --device cpu:1 --port 8000

On a cluster, start Ray on every machine with the number of its devices,

    ray start --head --resources '{"symlight_device": 4}'            # the first machine
    ray start --address HEAD:6379 --resources '{"symlight_device": 4}'   # the others

and run this file on one of them with `--address auto --resource symlight_device`.
"""

import argparse

import ray
from ray import serve

from symlight.host.serve.ray_app import build


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="demo")
    parser.add_argument("--device", default="cpu:1")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--most-replicas", type=int, help="let Ray scale up to so many")
    parser.add_argument("--resource", help="custom resource that a replica takes one of")
    parser.add_argument("--address", help="of a running cluster; default: a new one on this machine")
    parser.add_argument("--port", type=int, default=8000)
    values = parser.parse_args()
    ray.init(address=values.address, include_dashboard=False)
    serve.start(http_options={"host": "127.0.0.1", "port": values.port})
    application = build(
        model=values.model, device=values.device, replicas=values.replicas,
        most_replicas=values.most_replicas, resource=values.resource,
    )  # fmt: skip
    serve.run(application, blocking=True)


if __name__ == "__main__":
    main()
