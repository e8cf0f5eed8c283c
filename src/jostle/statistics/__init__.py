"""Statistics of a random audit: intervals, proofs, comparisons, recall. Arrays in, numbers out."""

from jostle.statistics.calibration import ErrorCalibration, calibrate_errors
from jostle.statistics.classes import ClassQuality, class_qualities
from jostle.statistics.compare import difference_interval
from jostle.statistics.confidence import (
    ALPHA,
    AuditSample,
    Interval,
    UpperBettor,
    betting_interval,
    carry_over,
    iid_interval,
    subtract_answered,
)
from jostle.statistics.estimate import estimate_mean, estimate_new_data_error, new_data_interval
from jostle.statistics.exact import error_counts, exact_interval
from jostle.statistics.forecast import (
    ProofForecast,
    answers_to_prove,
    fewest_answers_to_prove,
    growth_rate,
    shift_chances,
)
from jostle.statistics.noise import (
    NoiseShare,
    answer_error_rate,
    posterior_classes,
    share_of_noise,
    value_of_answer,
)
from jostle.statistics.recall import RecallBound, RecallSequence, recall_lower_bound
from jostle.statistics.savings import Savings, estimate_savings, shadow_errors
from jostle.statistics.spending import decay, is_candidate, spend_alpha

__all__ = [
    "ALPHA",
    "AuditSample",
    "ClassQuality",
    "ErrorCalibration",
    "Interval",
    "NoiseShare",
    "ProofForecast",
    "RecallBound",
    "RecallSequence",
    "Savings",
    "UpperBettor",
    "answer_error_rate",
    "answers_to_prove",
    "betting_interval",
    "calibrate_errors",
    "carry_over",
    "class_qualities",
    "decay",
    "difference_interval",
    "error_counts",
    "estimate_mean",
    "estimate_new_data_error",
    "estimate_savings",
    "exact_interval",
    "fewest_answers_to_prove",
    "growth_rate",
    "iid_interval",
    "is_candidate",
    "new_data_interval",
    "posterior_classes",
    "recall_lower_bound",
    "shadow_errors",
    "share_of_noise",
    "shift_chances",
    "spend_alpha",
    "subtract_answered",
    "value_of_answer",
]
