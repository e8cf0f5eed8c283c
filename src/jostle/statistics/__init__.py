"""Statistics of a random audit: intervals, proofs, comparisons, recall. Arrays in, numbers out."""

from jostle.statistics.agreement import (
    answer_error_rate,
    posterior_classes,
    share_of_noise,
    value_of_answer,
)
from jostle.statistics.confidence import ALPHA, AuditSample, Interval, betting_interval, iid_interval
from jostle.statistics.estimate import (
    calibrate_errors,
    estimate_mean,
    estimate_new_data_error,
    estimate_savings,
    new_data_interval,
    shadow_errors,
)
from jostle.statistics.proofs import (
    answers_to_prove,
    decay,
    fewest_answers_to_prove,
    is_candidate,
    spend_alpha,
)
from jostle.statistics.quality import (
    ClassQuality,
    RecallSequence,
    class_qualities,
    difference_interval,
)

__all__ = [
    "ALPHA",
    "AuditSample",
    "ClassQuality",
    "Interval",
    "RecallSequence",
    "answer_error_rate",
    "answers_to_prove",
    "betting_interval",
    "calibrate_errors",
    "class_qualities",
    "decay",
    "difference_interval",
    "estimate_mean",
    "estimate_new_data_error",
    "estimate_savings",
    "fewest_answers_to_prove",
    "iid_interval",
    "is_candidate",
    "new_data_interval",
    "posterior_classes",
    "shadow_errors",
    "share_of_noise",
    "spend_alpha",
    "value_of_answer",
]
