"""Muon for the matrices of the blocks, AdamW for the rest."""

import torch

_STEPS = 4
_A, _B, _C = 3.4445, -4.7750, 2.0315


def orthogonalise(update):
    """Newton-Schulz iteration on a stack of matrices [n, rows, columns]: nearly the nearest orthogonal matrices."""
    tall = update.shape[1] > update.shape[2]
    x = update.transpose(1, 2) if tall else update
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(_STEPS):
        gram = x @ x.transpose(1, 2)
        x = _A * x + (_B * gram + _C * gram @ gram) @ x
    return x.transpose(1, 2) if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum whose steps are orthogonalised; matrices of one shape are handled together."""

    def __init__(self, parameters, lr=0.02, momentum=0.95, weight_decay=0.05):
        super().__init__(parameters, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            shapes = {}
            for p in group["params"]:
                shapes.setdefault(p.shape, []).append(p)
            for shape, members in shapes.items():
                updates = []
                for p in members:
                    state = self.state[p]
                    buffer = state.setdefault("momentum", torch.zeros_like(p))
                    buffer.lerp_(p.grad, 1 - group["momentum"])
                    updates.append(p.grad.lerp(buffer, group["momentum"]))
                scale = max(1.0, shape[0] / shape[1]) ** 0.5
                for p, update in zip(members, orthogonalise(torch.stack(updates))):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(update, alpha=-group["lr"] * scale)


def is_matrix(name: str, parameter) -> bool:
    return parameter.ndim == 2 and name.startswith("blocks.")


def owner(name: str, parameter, ranks: int) -> int:
    """Which process updates a parameter; the orthogonalisation, which costs most, is shared evenly."""
    return int(name.split(".")[1]) % ranks if is_matrix(name, parameter) else 0


def build(named_parameters):
    """The optimizers of the parameters that one process owns."""
    named = list(named_parameters)
    matrices = [p for n, p in named if is_matrix(n, p)]
    others = [p for n, p in named if not is_matrix(n, p)]
    optimizers = [Muon(matrices)]
    if others:
        optimizers.append(torch.optim.AdamW(others, lr=3e-3, betas=(0.9, 0.97), weight_decay=0.0))
    return optimizers
