"""Low-frequency amplitudes: the part of an image's Fourier spectrum that carries a scanner's look, without the anatomy.

The window is the (2b+1) x (2b+1) square around the zero frequency, b = floor(min(h, w) L), at least 1 where L > 0:
with b = 0 it holds the mean alone, which z-scored images have not. Phase is never touched.
"""

from __future__ import annotations

import torch


def half_width(height: int, width: int, share: float) -> int:
    """b, kept small enough for the window to lie inside the spectrum."""
    side = min(height, width)
    wanted = max(int(side * share), 1) if share > 0 else 0
    return min(wanted, (side - 1) // 2)


def low_amplitudes(images: torch.Tensor, share: float) -> torch.Tensor:
    """|FFT| of images `[N, C, H, W]` inside the window, `[N, C, 2b+1, 2b+1]`."""
    rows, columns = _window(images, share)
    return _spectrum(images)[..., rows, columns].abs()


def with_amplitudes(images: torch.Tensor, amplitudes: torch.Tensor, share: float) -> torch.Tensor:
    """The images with the window's amplitudes replaced and every phase kept.

    An image's own amplitudes give the image back; L = 0 replaces the mean alone (its size: the sign is phase).
    """
    rows, columns = _window(images, share)
    spectrum = _spectrum(images)
    spectrum[..., rows, columns] = torch.polar(amplitudes.to(images.dtype), spectrum[..., rows, columns].angle())
    restored: torch.Tensor = torch.fft.ifft2(torch.fft.ifftshift(spectrum, dim=(-2, -1))).real
    return restored


def _spectrum(images: torch.Tensor) -> torch.Tensor:
    spectrum: torch.Tensor = torch.fft.fftshift(torch.fft.fft2(images), dim=(-2, -1))
    return spectrum


def _window(images: torch.Tensor, share: float) -> tuple[slice, slice]:
    height, width = images.shape[-2:]
    b = half_width(height, width, share)
    return slice(height // 2 - b, height // 2 + b + 1), slice(width // 2 - b, width // 2 + b + 1)
