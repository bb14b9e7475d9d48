"""Every proof, in the order of the data's way."""

import proofs_argmax
import proofs_burst
import proofs_dispatch
import proofs_fetch
import proofs_gather
import proofs_loader
import proofs_outputs
import proofs_queue
import proofs_writer

PROOFS = [
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
