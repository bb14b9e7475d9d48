"""Thresholds that training moves, and the penalty that moves them ("Event-driven LM sparsity", IV-C).

Equation 2 is the derivative of every thresholded value: sigmoid(C (|x| - threshold)) in place of the step,
C = 20. Equation 3 is the penalty: the share of active inputs, 1 - mean exp(-k x_sparse) with k = 10, where
x_sparse is the distance of the absolute value from the threshold (equation 1), 0 below it.
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .surrogates import EVENT_LIMIT, Event, Step, arctan_slope

SLOPE = 20.0  # C of equation 2
STEEPNESS = 10.0  # k of equation 3
LEAST = 1 / 64  # no threshold goes below: an event's payload is in units of it


class TrainedEvent(torch.autograd.Function):
    """`surrogates.Event` whose threshold learns: x in units of theta, rounded, 0 where |x| < theta.

    Takes x (any shape) and theta (scalar tensor > 0); gives integers in -127..127. Backward, with
    m = sigmoid(C (|x| - theta)): m / theta for x, and -m x / theta^2, summed, for theta.
    """

    @staticmethod
    def forward(ctx, x: Tensor, theta: Tensor) -> Tensor:
        ctx.save_for_backward(x, theta)
        rounded = torch.round(x / theta).clamp_(-EVENT_LIMIT, EVENT_LIMIT)
        return torch.where(x.abs() >= theta, rounded, 0.0)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        x, theta = ctx.saved_tensors
        passed = grad * _smooth(x.abs() - theta) / theta
        return passed, -(passed * x).sum() / theta


class Keep(torch.autograd.Function):
    """x where |x| >= delta, else 0: an optional event site, whose payload is finer than its threshold.

    Backward, with m = sigmoid(C (|x| - delta)): m for x, and -m sign(x), summed, for delta. The value at the
    threshold is not shifted as in equation 1; the gradient is that of the shifted one.
    """

    @staticmethod
    def forward(ctx, x: Tensor, delta: Tensor) -> Tensor:
        ctx.save_for_backward(x, delta)
        return torch.where(x.abs() >= delta, x, 0.0)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        x, delta = ctx.saved_tensors
        passed = grad * _smooth(x.abs() - delta)
        return passed, -(passed * x.sign()).sum()


class TrainedStep(torch.autograd.Function):
    """`surrogates.Step` whose threshold learns: H(x - tau), arctan surrogate gradient for both."""

    @staticmethod
    def forward(ctx, x: Tensor, tau: Tensor) -> Tensor:
        ctx.save_for_backward(x, tau)
        return (x >= tau).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        x, tau = ctx.saved_tensors
        passed = grad * arctan_slope(x - tau)
        return passed, -passed.sum()


class ActiveShare(torch.autograd.Function):
    """Differentiable share of active elements, a scalar: 1 - mean exp(-k max(0, size - threshold)).

    size is |x|, or x itself for spikes (`signed` false). The step in the derivative is smooth (equation 2).
    """

    @staticmethod
    def forward(ctx, x: Tensor, threshold: Tensor, signed: bool) -> Tensor:
        ctx.save_for_backward(x, threshold)
        ctx.signed = signed
        size = x.abs() if signed else x
        return 1 - torch.exp(-STEEPNESS * (size - threshold).clamp(min=0)).mean()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        x, threshold = ctx.saved_tensors
        above = (x.abs() if ctx.signed else x) - threshold
        slope = STEEPNESS * torch.exp(-STEEPNESS * above.clamp(min=0)) * _smooth(above) * (grad / x.numel())
        return slope * x.sign() if ctx.signed else slope, -slope.sum(), None


def _smooth(above: Tensor) -> Tensor:
    return torch.sigmoid(SLOPE * above)


# ---- use by the float model ----

Shares = list[tuple[str, int, Tensor]]  # (site, layer, differentiable share of active inputs)


def hold_threshold(module: nn.Module, name: str, value: float, trained: bool) -> None:
    """A scalar of a module: a parameter when it is trained, else a buffer; the name is the checkpoint's."""
    tensor = torch.tensor(float(value))
    if trained:
        setattr(module, name, nn.Parameter(tensor))
    else:
        module.register_buffer(name, tensor)


def event(x: Tensor, theta: Tensor) -> Tensor:
    """Events of x; the gradient depends on whether theta learns."""
    return (TrainedEvent if theta.requires_grad else Event).apply(x, theta)


def spikes(x: Tensor, tau: Tensor) -> Tensor:
    """Spikes of x; the gradient depends on whether tau learns."""
    return (TrainedStep if tau.requires_grad else Step).apply(x, tau)


def record(shares: Shares | None, site: str, layer: int, x: Tensor, threshold: Tensor, signed: bool) -> None:
    """Append the share of active inputs of a site, when somebody wants it."""
    if shares is not None:
        shares.append((site, layer, ActiveShare.apply(x, threshold, signed)))
