"""Statistics of a random audit: intervals, proofs, comparisons, recall. Arrays in, numbers out."""

from jostle.statistics.confidence import (
    ALPHA,
    AuditSample,
    Interval,
    UpperBettor,
    betting_interval,
    error_counts,
    exact_interval,
    iid_interval,
)
from jostle.statistics.estimate import (
    ErrorCalibration,
    calibrate_errors,
    estimate_mean,
    estimate_new_data_error,
    new_data_interval,
)
from jostle.statistics.noise import (
    NoiseShare,
    answer_error_rate,
    posterior_classes,
    share_of_noise,
    value_of_answer,
)
from jostle.statistics.proofs import (
    ProofForecast,
    answers_to_prove,
    decay,
    fewest_answers_to_prove,
    growth_rate,
    is_candidate,
    shift_chances,
    spend_alpha,
)
from jostle.statistics.quality import ClassQuality, class_qualities, difference_interval
from jostle.statistics.recall import RecallBound, RecallSequence, recall_lower_bound
from jostle.statistics.savings import Savings, estimate_savings, shadow_errors

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
    "value_of_answer",
]
