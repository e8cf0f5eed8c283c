"""BERT for sentence pairs, through transformers: batches are dicts of tensors, outputs carry `logits`."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import cast

from torch import nn


def pretrained_bert(encoder: str = "bert-base-uncased", classes: int = 2) -> nn.Module:
    """A pretrained BERT (a local folder or a hub name) that classifies sentence pairs.

    Its classifier is fresh, unless the checkpoint carries one for that number of classes.

    Args:
        encoder: A local folder, or a name of the Hugging Face hub.
        classes: How many classes there are, that is outputs.
    """
    transformers = _transformers()
    try:
        with _silence(transformers):
            model = transformers.AutoModelForSequenceClassification.from_pretrained(
                encoder, num_labels=classes, ignore_mismatched_sizes=True
            )
    except OSError as wrong:
        raise ValueError(
            f"no encoder {encoder!r}: give a folder that save_pretrained wrote, or a hub name that can be "
            f"reached or is cached ({wrong})"
        ) from wrong
    # float32, since the checkpoint may be stored in half precision; in training mode, as any new network
    return cast(nn.Module, model.float().train())


def bert_tiny(
    classes: int = 2,
    hidden: int = 32,
    layers: int = 2,
    heads: int = 2,
    vocabulary: int = 30522,
    length: int = 128,
) -> nn.Module:
    """A BERT small enough for a test, with random weights and nothing to download.

    Args:
        classes: How many classes there are, that is outputs.
        hidden: Width of a token.
        layers: How many layers there are.
        heads: Heads of attention of each layer.
        vocabulary: How many tokens are known.
        length: The most tokens of an example.
    """
    transformers = _transformers()
    config = transformers.BertConfig(
        num_labels=classes,
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        vocab_size=vocabulary,
        max_position_embeddings=length,
    )
    return cast(nn.Module, transformers.BertForSequenceClassification(config))


def _transformers() -> ModuleType:
    try:
        import transformers
    except ImportError as wrong:
        raise ImportError("BERT needs transformers: pip install jostle[nlp]") from wrong
    return transformers


@contextmanager
def _silence(transformers: ModuleType) -> Iterator[None]:
    """Keep quiet about the fresh classifier, which is intended, and draw no progress bar of its own."""
    logging = transformers.utils.logging
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with without_bars(transformers):
            yield
    finally:
        logging.set_verbosity(level)


@contextmanager
def without_bars(transformers: ModuleType) -> Iterator[None]:
    """No progress bars of transformers' own for a while; its warnings stay."""
    logging = transformers.utils.logging
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if bars:
            logging.enable_progress_bar()
