"""Looking closely: pictures enlarged, moved and brightened; small ones as squares."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from browser_pages import problems
from PIL import Image
from running_server import Running, served

Visit = Callable[..., Any]
SIZE = """(() => {
  const { width, height } = document.querySelector('.picture img').getBoundingClientRect();
  return [width, height];
})()"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A panorama, a tiny picture and a dark one of 16 bits with a bright pixel."""
    folder = tmp_path_factory.mktemp("close")
    Image.new("RGB", (3000, 150), (90, 120, 60)).save(folder / "panorama.png")
    Image.new("RGB", (12, 8), (200, 60, 40)).save(folder / "tiny.png")
    dark = np.tile(np.arange(100, 200, dtype=np.uint16), (60, 1))
    dark[0, 0] = 60_000
    Image.fromarray(dark).save(folder / "dark.png")
    with served(folder, tmp_path_factory.mktemp("close-project"), answers=["good", "bad"]) as running:
        yield running


def show(page: Any, name: str) -> None:
    """Skip until a picture is on the stage."""
    for _ in range(3):
        page.wait_for_selector(".stage[data-key]:not([data-key=''])")
        if page.get_attribute(".stage", "data-name") == name:
            return
        key = page.get_attribute(".stage", "data-key")
        page.keyboard.press(" ")
        page.wait_for_selector(f".stage:not([data-key='{key}'])")
    pytest.fail(f"{name} was not asked")


def test_a_panorama_is_enlarged_and_moved_by_keys_and_wheel(server: Running, visit: Visit) -> None:
    page = visit(server, name="Ada")
    show(page, "panorama.png")
    whole = page.evaluate(SIZE)
    page.keyboard.press("z")
    page.wait_for_selector(".overview:not([hidden]) img")
    enlarged = page.evaluate(SIZE)
    assert enlarged[1] > 3 * whole[1]
    assert enlarged[0] / enlarged[1] == pytest.approx(20, rel=0.01)
    left = "document.querySelector('.picture img').getBoundingClientRect().left"
    before = page.evaluate(left)
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"() => Math.abs({left} - {before - 80}) <= 1")
    assert problems(page) == []
    page.keyboard.press("z")
    page.wait_for_function(f"() => Math.abs({SIZE}[0] - {whole[0]}) <= 1")
    page.hover(".picture")
    page.mouse.wheel(0, -400)
    page.wait_for_function("() => Number(document.querySelector('.picture').dataset.zoom) > 2")


def test_a_tiny_picture_is_shown_as_squares_of_whole_pixels(server: Running, visit: Visit) -> None:
    page = visit(server, name="Bo")
    show(page, "tiny.png")
    width, height = page.evaluate(SIZE)
    assert width >= 10 * 12
    assert width % 12 == height % 8 == 0
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.picture img')).imageRendering")
        == "pixelated"
    )


def test_the_full_range_of_a_dark_picture_is_shown(server: Running, visit: Visit) -> None:
    page = visit(server, name="Cy")
    show(page, "dark.png")
    brightest = """() => { const image = document.querySelector('.picture img');
      const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight).getContext('2d');
      canvas.drawImage(image, 0, 0); return canvas.getImageData(90, 30, 1, 1).data[0]; }"""
    assert page.evaluate(brightest) < 5
    page.keyboard.press("*")
    page.check("text=Full range")
    page.wait_for_function("() => document.querySelector('.picture img').src.includes('stretch')")
    page.wait_for_selector(".stage[data-key]:not([data-key=''])")
    page.wait_for_function(f"() => ({brightest})() > 200")
    page.focus("label:has-text('Brightness') input")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => document.querySelector('.picture img').style.filter.includes('brightness')")
