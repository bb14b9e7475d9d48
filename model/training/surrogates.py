"""Operations of the float model with a gradient of their own: events, steps, LIF, ReLU-L1 attention.

`Event` and `Step` have fixed thresholds. Those with trainable ones are in `thresholds.py`.
"""

import math

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

EVENT_LIMIT = 127  # L of Eq. 1: an event payload fits int8
ATTENTION_EPSILON = 1e-6  # keeps 0 / 0 at 0; the integer reference tests for a zero sum instead
# Under autocast too: integers and thresholds want 24 bits of mantissa.
FLOAT32 = torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
ARCTAN_SLOPE = 2.0  # k of the step's surrogate derivative (k / 2) / (1 + (pi / 2 k x)^2)


class Event(torch.autograd.Function):
    """Graded signed event: sign and magnitude of x in units of theta, 0 where |x| < theta (Eq. 1).

    Takes x (any shape) and theta (scalar tensor > 0); gives integers in -127..127 as float32. Ties round to
    even. The gradient is straight-through, 1 / theta everywhere: silent and saturated places too.
    """

    @staticmethod
    def forward(ctx, x: Tensor, theta: Tensor) -> Tensor:
        ctx.inverse = 1.0 / float(theta)
        rounded = torch.round(x / theta).clamp_(-EVENT_LIMIT, EVENT_LIMIT)
        return torch.where(x.abs() >= theta, rounded, 0.0)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        return grad * ctx.inverse, None


class Step(torch.autograd.Function):
    """Binary spike H(x - tau) with H(0) = 1, in {0, 1} as float32; arctan surrogate gradient."""

    @staticmethod
    def forward(ctx, x: Tensor, tau: Tensor) -> Tensor:
        ctx.save_for_backward(x, tau)
        return (x >= tau).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        x, tau = ctx.saved_tensors
        return grad * arctan_slope(x - tau), None


class Lif(torch.autograd.Function):
    """Leaky integrate-and-fire over axis 1 of x [batch, time, width]: spikes in {0, 1}, same shape.

    v = clamp(leak v + x, -limit, limit); spike where v >= threshold; v = 0 after a spike. The membrane starts
    at 0. The gradient runs back through the whole time axis; the reset is treated as a constant.
    """

    @staticmethod
    def forward(ctx, x: Tensor, leak: float, threshold: float, limit: float) -> Tensor:
        membranes = torch.empty_like(x)  # before the reset
        membrane = torch.zeros_like(x[:, 0])
        for time in range(x.shape[1]):
            membrane = torch.add(x[:, time], membrane, alpha=leak).clamp_(-limit, limit)
            membranes[:, time] = membrane
            membrane.mul_(membrane < threshold)
        ctx.save_for_backward(membranes)
        ctx.constants = leak, threshold, limit
        return (membranes >= threshold).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        (membranes,) = ctx.saved_tensors
        leak, threshold, limit = ctx.constants
        result = grad * arctan_slope(membranes - threshold)
        passes = (membranes.abs() < limit).to(grad.dtype)
        carries = (membranes < threshold).to(grad.dtype).mul_(leak)
        later = torch.zeros_like(grad[:, 0])
        for time in reversed(range(grad.shape[1])):
            here = result[:, time]
            here.addcmul_(later, carries[:, time]).mul_(passes[:, time])
            later = here
        return result, None, None, None


class ReluL1Attention(torch.autograd.Function):
    """Attention with weights max(0, s) / (sum of max(0, s) + epsilon), s = q.k / sqrt(head_width) + bias.

    q, k, v: events [batch, heads, time, head_width]; bias: ALiBi and visibility [heads, time, time], -inf
    where not visible. Gives [batch, heads, time, head_width]; a row without a positive score gives 0.
    The scale is applied after q.k, which is an exact integer: a scaled and rounded q would turn scores of
    exactly 0 into tiny positive ones, and this normalisation would blow them up to full weights.
    """

    @staticmethod
    @FLOAT32
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        scale = 1.0 / math.sqrt(q.shape[-1])
        weights = torch.matmul(q, k.transpose(-1, -2)).mul_(scale).add_(bias).clamp_(min=0.0)
        inverse = (weights.sum(-1, keepdim=True) + ATTENTION_EPSILON).reciprocal_()
        # Dividing after the product with v touches [time, width] numbers, not [time, time].
        output = torch.matmul(weights, v).mul_(inverse)
        ctx.save_for_backward(q, k, v, weights, inverse, output)
        ctx.scale = scale
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        q, k, v, weights, inverse, output = ctx.saved_tensors
        grad = grad * inverse
        grad_v = torch.matmul(weights.transpose(-1, -2), grad)
        shift = (grad * output).sum(-1, keepdim=True)
        # Only positive scores pass, so a zero row (inverse = 1 / epsilon) hands no gradient on.
        grad_scores = torch.matmul(grad, v.transpose(-1, -2)).sub_(shift).mul_(ctx.scale)
        grad_scores = torch.where(weights > 0, grad_scores, 0.0)
        grad_q = torch.matmul(grad_scores, k)
        grad_k = torch.matmul(grad_scores.transpose(-1, -2), q)
        return grad_q, grad_k, grad_v, None


def arctan_slope(x: Tensor) -> Tensor:
    return (ARCTAN_SLOPE / 2) / (1 + (math.pi / 2 * ARCTAN_SLOPE * x).square())
