"""Every proof, in the order of the data's way."""

from . import (
    proofs_argmax,
    proofs_burst,
    proofs_dispatch,
    proofs_fetch,
    proofs_gather,
    proofs_loader,
    proofs_outputs,
    proofs_queue,
    proofs_writer,
)
from .proof import Proof

PROOFS: list[type[Proof]] = [
    proof
    for module in (
        proofs_queue,
        proofs_outputs,
        proofs_gather,
        proofs_burst,
        proofs_fetch,
        proofs_loader,
        proofs_writer,
        proofs_dispatch,
        proofs_argmax,
    )
    for proof in module.PROOFS
]
