import pytest
import torch
from torch import Tensor, nn

from jostle import models

transformers = pytest.importorskip("transformers", reason="needs jostle[nlp]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A pretrained encoder as users have it: a body without a classifier, in half precision."""
    path = tmp_path_factory.mktemp("encoder")
    models.build("bert-tiny", seed=1, vocabulary=100).get_submodule("bert").bfloat16().save_pretrained(path)
    return str(path)


def pairs(n: int = 3) -> dict[str, Tensor]:
    tokens = torch.randint(100, (n, 8), generator=torch.Generator().manual_seed(0))
    second = (torch.arange(8) >= 4).long().expand(n, 8)
    return {"input_ids": tokens, "token_type_ids": second, "attention_mask": torch.ones_like(tokens)}


def body(model: nn.Module) -> Tensor:
    return torch.cat([each.detach().flatten() for each in model.get_submodule("bert").parameters()])


def test_a_local_folder_gives_its_weights_and_a_fresh_classifier(folder: str) -> None:
    first = models.build("bert", encoder=folder, classes=3, seed=0)
    second = models.build("bert", encoder=folder, classes=3, seed=9)
    source = transformers.AutoModel.from_pretrained(folder)
    expected = torch.cat([each.detach().float().flatten() for each in source.parameters()])
    assert torch.equal(body(first), expected)
    assert torch.equal(body(first), body(second))
    heads = [each.get_submodule("classifier").weight for each in (first, second)]
    assert heads[0].shape == (3, 32)
    assert not torch.equal(*heads)
    again = models.build("bert", encoder=folder, classes=3, seed=0)
    assert torch.equal(heads[0], again.get_submodule("classifier").weight)


def test_it_comes_in_float32_and_training_mode_without_a_word(
    folder: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    logging = transformers.utils.logging
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    model = models.build("bert", encoder=folder, seed=0)
    assert {each.dtype for each in model.parameters()} == {torch.float32}
    assert all(part.training for part in model.modules())
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_the_classifier_sees_the_pooled_output(folder: str) -> None:
    model, caught = models.build("bert", encoder=folder, seed=0).eval(), []
    model.get_submodule("classifier").register_forward_pre_hook(lambda _part, args: caught.append(args[0]))
    with torch.no_grad():
        logits = model(**pairs()).logits
        pooled = model.get_submodule("bert")(**pairs()).pooler_output
    assert logits.shape == (3, 2)
    assert pooled.shape == (3, 32)
    torch.testing.assert_close(caught[0], pooled)


def test_tiny_bert_takes_its_shape() -> None:
    model = models.build("bert-tiny", hidden=24, layers=3, heads=4, vocabulary=50, length=16, seed=0)
    assert model.get_submodule("classifier").weight.shape == (2, 24)
    assert len(model.get_submodule("bert.encoder.layer")) == 3
    assert model.get_submodule("bert.embeddings.word_embeddings").weight.shape == (50, 24)
