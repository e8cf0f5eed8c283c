"""How metrics are written and read."""

from collections.abc import Mapping
from typing import NamedTuple


class Metric(NamedTuple):
    """How a metric is written and read; a share between 0 and 1 is shown as a percentage."""

    title: str
    percent: bool = False
    higher: bool = True  # is better

    @property
    def unit(self) -> str:
        """The title with its unit, as a column has it."""
        return self.title + (", %" if self.percent else "")

    @property
    def axis(self) -> str:
        """The title with its unit, as an axis has it."""
        return self.title + (" (%)" if self.percent else "")

    @property
    def gain_unit(self) -> str:
        """What a difference is counted in, as an axis has it."""
        return " (points)" if self.percent else ""

    @property
    def scale(self) -> float:
        """From the stored value to the shown one."""
        return 100.0 if self.percent else 1.0

    @property
    def sign(self) -> float:
        """Multiplied by this, larger is better."""
        return 1.0 if self.higher else -1.0


# In the order in which a report prefers them as its main metric.
METRICS: Mapping[str, Metric] = {
    "accuracy": Metric("accuracy", percent=True),
    "miou": Metric("mean IoU", percent=True),
    "token_accuracy": Metric("token accuracy", percent=True),
    "mae": Metric("MAE", higher=False),
    "rmse": Metric("RMSE", higher=False),
    "published": Metric("published figure", higher=False),
    "macro_f1": Metric("macro-F1", percent=True),
    "micro_f1": Metric("micro-F1", percent=True),
    "f1": Metric("F1", percent=True),
    "exact_match": Metric("exact match", percent=True),
    "pixel_accuracy": Metric("pixel accuracy", percent=True),
    "nll": Metric("negative log-likelihood", higher=False),
    "loss": Metric("loss", higher=False),
}


def metric_named(name: str) -> Metric:
    """What is known of a metric; an unknown one is taken as it is, larger being better."""
    return METRICS.get(name, Metric(name.replace("_", " ")))


def main_metric(metrics: Mapping[str, float]) -> str:
    """The first of the metrics that people ask for, as they write it: accuracy 81.3 %."""
    name = next((known for known in METRICS if known in metrics), next(iter(metrics)))
    metric = metric_named(name)
    value = metrics[name] * metric.scale
    shown = f"{value:.1f} %" if metric.percent else f"{value:.4g}" if value < 1000 else f"{value:.0f}"
    return f"{metric.title} {shown}"
