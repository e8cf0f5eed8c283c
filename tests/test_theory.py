"""The paper's theorems, each checked on jostle's own rows against Jacobians from autograd.

Intervals are five standard errors, and a standard error is what the theory itself gives: for a uniform unit vector u
in P dimensions and a symmetric M, P u'Mu has mean tr(M) and variance 2 (P tr(M^2) - tr(M)^2) / (P + 2).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap
from zoo import mlp

import jostle

DRAWS = 400
EXACT = {"estimator": "jvp"}
SMALL = {"estimator": "finite", "noise_scale": 1e-6}


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 4, 3), nn.Tanh(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip


def scalar() -> nn.Module:
    """An odd function, so that gradients at different inputs also point away from each other."""
    layers = nn.Linear(3, 4, bias=False), nn.Tanh(), nn.Linear(4, 1, bias=False)
    return nn.Sequential(*layers).double()


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach() for name, p in model.named_parameters()}


def entries(model: nn.Module) -> int:
    """P."""
    return sum(p.numel() for p in model.parameters())


def jacobians(
    model: nn.Module, x: Tensor, space: Callable[[Tensor], Tensor] = lambda z: z
) -> dict[str, Tensor]:
    """Jacobians of the outputs by reverse mode, for each parameter (n, d, entries)."""
    model.eval()
    theta, buffers = parameters_of(model), {name: b.detach() for name, b in model.named_buffers()}

    def output(theta: dict[str, Tensor], one: Tensor) -> Tensor:
        return space(functional_call(model, theta | buffers, one[None]))[0]

    found = vmap(jacrev(output), in_dims=(None, 0))(theta, x)
    return {name: jacobian.flatten(2) for name, jacobian in found.items()}


def jacobian(model: nn.Module, x: Tensor, space: Callable[[Tensor], Tensor] = lambda z: z) -> Tensor:
    """The whole Jacobian of every example, (n, d, P)."""
    return torch.cat(list(jacobians(model, x, space).values()), 2)


def gradients(model: nn.Module, x: Tensor) -> Tensor:
    """Gradients of a scalar output, (n, P)."""
    return jacobian(model, x)[:, 0]


def rows_of(model: nn.Module, x: Tensor, jolts: int, seed: int = 0, **settings: Any) -> Tensor:
    return jostle.deviations(
        model, x, num_perturbations=jolts, seed=seed, **({"space": "logits"} | SMALL | settings)
    )


def singles(model: nn.Module, x: Tensor, draws: int, **settings: Any) -> Tensor:
    """Independent rows of one jolt each, (n, draws, d), from one call."""
    rows = rows_of(model, x, draws, **settings)
    return rows.view(len(x), draws, -1) * math.sqrt(draws)


def spread(trace: Tensor, trace_of_square: Tensor, P: int) -> Tensor:
    """Standard deviation of P u'Mu."""
    return (2 * (P * trace_of_square - trace.square()) / (P + 2)).clamp(min=0).sqrt()


def assert_means(values: Tensor, means: Tensor, spreads: Tensor, slack: float = 0.0) -> None:
    """Means over the last dimension lie within five standard errors, which must be small."""
    error = spreads / math.sqrt(values.shape[-1])
    assert (5 * error < 0.6 * means).all(), "too few draws to tell anything"
    off = (values.mean(-1) - means).abs()
    assert (off <= 5 * error + slack * means.abs()).all(), (
        f"up to {float((off / error).max()):.1f} standard errors"
    )


def squared_jacobian(J: Tensor) -> tuple[Tensor, Tensor]:
    """||J||_F^2 of (n, d, P) Jacobians, and the standard deviation of its estimate from one jolt."""
    gram = J @ J.mT  # (n, d, d), with the traces of J'J
    trace = gram.diagonal(dim1=1, dim2=2).sum(1)
    return trace, spread(trace, gram.square().sum((1, 2)), J.shape[2])


class TestJacobianNorm:
    """Eq. (jacobian): squared row lengths estimate the squared Frobenius norm of the Jacobian."""

    @pytest.mark.parametrize("settings", [EXACT, SMALL], ids=["exact", "differences"])
    @pytest.mark.parametrize(("make", "shape"), [(mlp, (6,)), (cnn, (1, 8, 8))], ids=["mlp", "cnn"])
    def test_in_expectation(
        self, make: Callable[[], nn.Module], shape: tuple[int, ...], settings: Any
    ) -> None:
        model, x = make().double(), torch.randn(5, *shape).double()
        softmax = jacobian(model, x, lambda z: z.softmax(1))
        squares = singles(model, x, DRAWS, space="probabilities", **settings).square().sum(2)  # (n, draws)
        assert_means(squares, *squared_jacobian(softmax), slack=1e-4)

    def test_over_many_seeds(self) -> None:
        model, x, jolts = mlp().double(), torch.randn(5, 6).double(), 8
        squares = torch.stack([rows_of(model, x, jolts, seed).square().sum(1) for seed in range(40)], 1)
        mean, deviation = squared_jacobian(jacobian(model, x))
        assert_means(squares, mean, deviation / math.sqrt(jolts), slack=1e-4)

    def test_in_float32_at_the_default_scale(self) -> None:
        model, x = mlp(), torch.randn(5, 6)
        squares = singles(model, x, DRAWS, noise_scale=1e-3).square().sum(2)
        assert_means(squares, *squared_jacobian(jacobian(model, x)), slack=0.01)

    def test_features_see_only_what_precedes_the_head(self) -> None:
        model, x = mlp().double(), torch.randn(5, 6).double()
        body = nn.Sequential(model[0], model[1])  # type: ignore[index]
        squares = singles(model, x, DRAWS, space="features").square().sum(2)
        assert_means(squares, *squared_jacobian(jacobian(body, x)), slack=1e-4)

    def test_layerwise_noise_estimates_a_weighted_norm_instead(self) -> None:
        """The published code's noise: sum over weights W of P ||W||^2 / ||theta||^2 / P_W * ||J_W||_F^2."""
        model, x = mlp().double(), torch.randn(5, 6).double()
        model[0].weight.data *= 3  # type: ignore[index, operator, union-attr]
        theta, parts = parameters_of(model), jacobians(model, x)
        weights = [name for name in theta if name.endswith("weight")]
        P = sum(theta[name].numel() for name in weights)
        total = sum(theta[name].square().sum() for name in weights)
        expected = torch.zeros(5).double()
        for name in weights:
            share = P * theta[name].square().sum() / total / theta[name].numel()
            expected += share * parts[name].square().sum((1, 2))
        squares = singles(model, x, DRAWS, noise="layerwise").square().sum(2)
        plain = squared_jacobian(torch.cat([parts[name] for name in weights], 2))[0]
        assert_means(squares, expected, squares.std(1))
        assert ((squares.mean(1) - plain).abs() > 5 * squares.std(1) / math.sqrt(DRAWS)).any()

    def test_the_expected_length_is_shorter_than_the_norm(self) -> None:
        """The paper's summary says E||row|| = ||J||_F; that holds for squares, and for lengths as K grows."""
        model, x = nn.Linear(2, 1).double(), torch.randn(4, 2).double()  # P = 3
        ratios = singles(model, x, DRAWS).abs().squeeze(2) / gradients(model, x).norm(dim=1, keepdim=True)
        mean = torch.full((4,), math.sqrt(3) / 2).double()  # sqrt(3) E|cos| where cos is uniform on [-1, 1]
        assert_means(ratios, mean, torch.full((4,), 0.5))
        groups = ratios.square().view(4, -1, 100).mean(2).sqrt()  # (n, 10), K = 100
        assert ((groups.mean(1) - 1).abs() < 0.07).all()


class TestVariance:
    """For scalar f a squared length has relative variance 2 (P - 1) / ((P + 2) K)."""

    @pytest.mark.parametrize(("P", "jolts"), [(2, 1), (3, 1), (3, 4)])
    def test_relative_variance(self, P: int, jolts: int) -> None:
        seeds = 300  # groups of so many perturbations, all of one call
        model = nn.Linear(P, 1, bias=False).double()  # its gradients are its inputs
        x = torch.stack([torch.eye(P)[0], torch.ones(P), torch.randn(P)]).double()
        squares = singles(model, x, seeds * jolts).square().view(3, seeds, jolts).mean(2)
        ratios = squares / gradients(model, x).square().sum(1, keepdim=True)  # (n, seeds)
        theory = 2 * (P - 1) / ((P + 2) * jolts)
        law = stats.beta(0.5, (P - 1) / 2)  # of cos^2 between a direction and a gradient
        excess = float(law.stats("k")) / jolts  # kurtosis of a mean of K
        error = theory * math.sqrt((2 + excess) / seeds)
        assert entries(model) == P
        assert ((ratios.var(1) - theory).abs() < 5 * error).all()
        assert 5 * error < 2 / jolts - theory, "the interval would not exclude 2/K, the limit of large P"

    def test_one_jolt_follows_the_exact_law(self) -> None:
        """cos^2 between u and a gradient is Beta(1/2, (P-1)/2): all moments at once, and no axis is special."""
        P, draws = 2, 1500
        model, axis = nn.Linear(P, 1, bias=False).double(), torch.eye(P)[:1].double()
        cosines = singles(model, axis, draws)[0, :, 0].square() / P
        assert stats.kstest(cosines.numpy(), stats.beta(0.5, (P - 1) / 2).cdf).pvalue > 1e-3
        assert stats.kstest(cosines.numpy(), stats.beta(0.5, P / 2).cdf).pvalue < 1e-9

    def test_the_error_falls_as_one_over_the_root_of_k(self) -> None:
        model, x = scalar(), torch.randn(20, 3).double()
        P, lengths = entries(model), gradients(model, x).square().sum(1)
        counts = (1, 3, 9, 27)
        errors = []
        for jolts in counts:
            squares = singles(model, x, 60 * jolts, seed=jolts).square().view(20, 60, jolts).mean(2).T
            errors.append(float((squares / lengths - 1).square().mean().sqrt()))
        slope, _ = np.polyfit(np.log(counts), np.log(errors), 1)
        assert slope == pytest.approx(-0.5, abs=0.08)
        for jolts, error in zip(counts, errors, strict=True):
            assert error == pytest.approx(math.sqrt(2 * (P - 1) / ((P + 2) * jolts)), rel=0.25)


class TestGeometry:
    """Properties 1 and 2: distances and inner products of rows are those of gradients, in expectation."""

    @pytest.mark.parametrize("settings", [EXACT, SMALL], ids=["exact", "differences"])
    def test_distances(self, settings: Any) -> None:
        model, x = scalar(), torch.randn(6, 3).double()
        first, second = torch.triu_indices(6, 6, 1)
        gaps = gradients(model, x)[first] - gradients(model, x)[second]
        rows = singles(model, x, DRAWS, **settings).squeeze(2)
        assert_means(
            (rows[first] - rows[second]).square(), *squared_jacobian(gaps[:, None]), slack=1e-4
        )  # (pairs, draws)

    def test_distances_of_vector_outputs(self) -> None:
        model, x = cnn().double(), torch.randn(5, 1, 8, 8).double()
        first, second = torch.triu_indices(5, 5, 1)
        J, rows = jacobian(model, x), singles(model, x, DRAWS)
        squares = (rows[first] - rows[second]).square().sum(2)
        assert_means(squares, *squared_jacobian(J[first] - J[second]), slack=1e-3)

    @pytest.mark.parametrize("settings", [EXACT, SMALL], ids=["exact", "differences"])
    def test_inner_products(self, settings: Any) -> None:
        model, x = scalar(), torch.randn(6, 3).double()
        g, P = gradients(model, x), entries(model)
        rows = singles(model, x, DRAWS, **settings).squeeze(2)
        inner = g @ g.T
        squares = inner.diagonal()
        trace_of_square = (
            squares[:, None] * squares + inner.square()
        ) / 2  # of the symmetric part of g_i g_j'
        assert inner.min() < 0 < inner.max()
        off = 1e-4 * float(squares.max())
        error = spread(inner, trace_of_square, P) / math.sqrt(DRAWS)
        assert ((torch.einsum("ik,jk->ij", rows, rows) / DRAWS - inner).abs() <= 5 * error + off).all()


class TestConcentration:
    """A.1 and A.2: with K of the order of log N / epsilon^2, all lengths, distances and angles hold at once."""

    N, EPSILON, FAILURE = 30, 0.3, 0.01

    def jolts(self) -> int:
        """K with explicit constants: P(|ratio - 1| > e) <= 2 exp(-K (e^2/4 - e^3/6)), over all pairs."""
        e, claims = self.EPSILON, self.N * (self.N + 1) / 2
        return math.ceil(math.log(2 * claims / self.FAILURE) / (e**2 / 4 - e**3 / 6))

    def worst(self, model: nn.Module, x: Tensor, jolts: int, seed: int) -> float:
        """The largest relative error of a squared length or squared distance."""
        g, rows = gradients(model, x), rows_of(model, x, jolts, seed)
        origin = (
            torch.zeros_like(g[:1]),
            torch.zeros_like(rows[:1]),
        )  # a length is the distance from the origin
        true, found = (torch.pdist(torch.cat(pair)).square() for pair in zip(origin, (g, rows), strict=True))
        return float((found / true - 1).abs().max())

    def test_all_lengths_and_distances_at_once(self) -> None:
        model, x = scalar(), torch.randn(self.N, 3).double()
        jolts = self.jolts()
        assert max(self.worst(model, x, jolts, seed) for seed in range(4)) < self.EPSILON
        assert max(self.worst(model, x, jolts // 30, seed) for seed in range(4)) > self.EPSILON

    def test_angles_hold_with_the_sign_of_the_numerator_in_mind(self) -> None:
        """A.2 divides by (1 + e)^2 below and (1 - e)^2 above; for a negative numerator it is the other way round."""
        model, x = scalar(), torch.randn(self.N, 3).double()
        g, rows = gradients(model, x), rows_of(model, x, self.jolts())
        cosine = nn.functional.normalize(g) @ nn.functional.normalize(g).T
        found = nn.functional.normalize(rows) @ nn.functional.normalize(rows).T
        low, high = angle_bounds(cosine, self.EPSILON)
        assert ((low <= found) & (found <= high)).all()

    def test_the_printed_bound_on_angles_fails_for_opposite_gradients(self) -> None:
        x = torch.randn(1, 5).double()
        model = nn.Linear(5, 1, bias=False).double()  # its gradients are its inputs
        rows = rows_of(model, torch.cat([x, -x]), self.jolts())
        found = float(nn.functional.cosine_similarity(rows[0], rows[1], dim=0))
        e = self.EPSILON
        assert found == pytest.approx(-1)
        assert not (-1 - e) / (1 + e) ** 2 <= found  # as printed
        assert not found <= (-1 + e) / (1 - e) ** 2  # as printed
        low, high = angle_bounds(torch.tensor(-1.0), e)
        assert low <= found <= high


def angle_bounds(cosine: Tensor, e: float) -> tuple[Tensor, Tensor]:
    """Bounds on the cosine of two rows, whatever its sign."""
    low, high = cosine - e, cosine + e
    wide, narrow = (1 - e) ** 2, (1 + e) ** 2
    return low / torch.where(low < 0, wide, narrow), high / torch.where(high < 0, narrow, wide)


class TestVarianceReduction:
    """A.3 on a linear-Gaussian model, where all its approximations are equalities."""

    P, LABELED, NOISE = 5, 40, 0.7  # NOISE is S^2

    def setting(self) -> tuple[nn.Module, Tensor, Tensor, Tensor]:
        """A model, labeled inputs, one candidate and the inputs where the variance is watched."""
        model = nn.Linear(self.P, 1, bias=False).double()
        return (
            model,
            torch.randn(self.LABELED, self.P).double(),
            3 * torch.randn(1, self.P).double(),
            torch.randn(7, self.P).double(),
        )

    def variance(self, labeled: Tensor, x: Tensor) -> Tensor:
        """Predictive variance of least squares, directly: S^2 x' (X'X)^-1 x."""
        return self.NOISE * (x @ torch.linalg.inv(labeled.T @ labeled) * x).sum(1)

    def direct(self, labeled: Tensor, new: Tensor, x: Tensor) -> Tensor:
        """What labeling the candidate takes away, by inverting again."""
        return self.variance(labeled, x) - self.variance(torch.cat([labeled, new]), x)

    def formula(self, A: Tensor, u: Tensor, J_new: Tensor, J: Tensor) -> Tensor:
        """Eq. (var_change) for given A and u."""
        inverse, size = torch.linalg.pinv(A, hermitian=True), J_new.square().sum()
        return (J @ inverse @ u).square() * size / (self.NOISE + u @ inverse @ u * size)

    def test_predictive_variance_is_what_refitting_shows(self) -> None:
        """The oracle's oracle: least squares refitted to fresh noise, 20000 times."""
        _, labeled, new, x = self.setting()
        for inputs in (labeled, torch.cat([labeled, new])):
            noise = math.sqrt(self.NOISE) * torch.randn(len(inputs), 20000).double()
            spread = (x @ (torch.linalg.pinv(inputs) @ noise)).var(1)
            torch.testing.assert_close(spread, self.variance(inputs, x), rtol=0.05, atol=0)

    def test_the_formula_with_both_slips_mended(self) -> None:
        model, labeled, new, x = self.setting()
        J_labeled, J_new, J = (gradients(model, inputs) for inputs in (labeled, new, x))
        A, u = J_labeled.T @ J_labeled / self.NOISE, J_new[0] / J_new.norm()
        torch.testing.assert_close(self.formula(A, u, J_new, J), self.direct(labeled, new, x))

    def test_the_formula_as_printed_is_wrong_twice(self) -> None:
        """A = (1/S^2) d^2 S^2 / d theta^2 is 2/m times the right one; J / ||J||^2 has no unit length."""
        model, labeled, new, x = self.setting()
        J_labeled, J_new, J = (gradients(model, inputs) for inputs in (labeled, new, x))
        truth = self.direct(labeled, new, x)
        theta = torch.randn(self.P).double()
        targets = torch.randn(self.LABELED).double()
        hessian = torch.func.hessian(lambda theta: (labeled @ theta - targets).square().mean())(theta)
        A, u = J_labeled.T @ J_labeled / self.NOISE, J_new[0] / J_new.norm()
        printed_A, printed_u = hessian / self.NOISE, J_new[0] / J_new.square().sum()
        torch.testing.assert_close(printed_A, 2 / self.LABELED * A)
        for wrong in ((printed_A, u), (A, printed_u), (printed_A, printed_u)):
            ratio = self.formula(*wrong, J_new, J) / truth
            assert ((ratio < 0.5) | (ratio > 2)).all(), f"ratios {ratio.tolist()}"

    def test_rows_know_the_reduction_once_k_reaches_p(self) -> None:
        """K >= P jolts are a change of coordinates, under which the formula does not change."""
        model, labeled, new, x = self.setting()
        rows = rows_of(model, torch.cat([labeled, new, x]), 2 * self.P, **EXACT)
        R_labeled, R_new, R = rows.split([self.LABELED, 1, 7])
        A, u = R_labeled.T @ R_labeled / self.NOISE, R_new[0] / R_new.norm()
        torch.testing.assert_close(self.formula(A, u, R_new, R), self.direct(labeled, new, x))

    def test_along_one_direction_the_longest_gradient_reduces_most(self) -> None:
        _, labeled, new, x = self.setting()
        reductions = torch.stack([self.direct(labeled, length * new, x) for length in (0.5, 1.0, 2.0, 4.0)])
        assert (reductions.diff(dim=0) > 0).all()
