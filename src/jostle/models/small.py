"""Networks that train in seconds on a CPU: MNIST, scikit-learn's digits, housing."""

from torch import nn

from jostle.models.blocks import chain


def mnist_cnn(classes: int = 10, channels: int = 1) -> nn.Sequential:
    """The paper's small CNN for 28×28 images (MNIST, Fashion-MNIST).

    Args:
        classes: How many classes there are, that is outputs.
        channels: Of the images.
    """
    return chain(
        layer1=nn.Sequential(nn.Conv2d(channels, 32, 5), nn.MaxPool2d(2), nn.ReLU()),  # (n, 32, 12, 12)
        layer2=nn.Sequential(nn.Conv2d(32, 64, 5), nn.MaxPool2d(2), nn.ReLU()),  # (n, 64, 4, 4)
        flatten=nn.Flatten(),
        feature=nn.Linear(1024, 128),  # no ReLU follows: the paper's table has none
        head=nn.Linear(128, classes),
    )


def digits_cnn(classes: int = 10, channels: int = 1) -> nn.Sequential:
    """A CNN for the 8×8 images of scikit-learn's digits; trains in a second.

    Args:
        classes: How many classes there are, that is outputs.
        channels: Of the images.
    """
    return chain(
        layer1=nn.Sequential(nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),  # 4 × 4
        layer2=nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),  # 2 × 2
        flatten=nn.Flatten(),
        feature=nn.Sequential(nn.Linear(128, 48), nn.ReLU()),
        head=nn.Linear(48, classes),
    )


def mlp(inputs: int = 215, outputs: int = 1) -> nn.Sequential:
    """The paper's housing MLP, 215-128-64-32-1; its 32 features are linear.

    Args:
        inputs: Numbers of an example.
        outputs: Numbers that are predicted.
    """
    return chain(
        layer1=nn.Sequential(nn.Linear(inputs, 128), nn.ReLU()),
        layer2=nn.Sequential(nn.Linear(128, 64), nn.ReLU()),
        feature=nn.Linear(64, 32),  # no ReLU follows, as in the published code
        head=nn.Linear(32, outputs),  # (n, outputs)
    )
