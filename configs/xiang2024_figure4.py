"""Figure 4 of Xiang et al. (2024): how label-dependent link probabilities come out.

  python -m fedjax_links figure --config=configs/xiang2024_figure4.py --workdir=runs/xiang4

It takes three seconds on two CPU cores, as with `--quick`. It was not measured on a GPU.

The paper shows one draw of class weights r from a log-normal with sigma 10, and a histogram of the
p_i without clipping (delta = 0) of which most fall below 0.1. Deviations: its draws are not
published apart from the r shown; the histogram is a mean over 400 draws with one of them marked.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the figure's settings."""
    return ConfigDict(
        {
            'title': 'Construction of the link probabilities (Xiang et al. 2024, Figure 4)',
            'figure': {
                'name': 'figures.xiang2024:class_weights',
                'published': (
                    *(2.30e-1, 4.50e-11, 1.03e-10, 4.45e-13, 1.17e-4),
                    *(2.05e-18, 7.69e-1, 1.01e-11, 4.94e-7, 1.68e-9),
                ),
                'num_draws': 400,
            },
            'caption': (
                'p_i = <r, nu_i>, r log-normal(0, 10^2) normalised, nu_i ~ Dirichlet(0.1), 100 '
                'clients, 10 classes, delta = 0. The paper shows one r (left) and reports that '
                'most p_i fall below 0.1. Deviations: its other draws are not published, so the '
                'histogram is the mean over 400 draws of r and all nu_i (bars, 95 % intervals) '
                'beside one draw (diamonds); nu_i are the Dirichlet draws of the text, not the '
                'shares that clients end up with, which the released code uses.'
            ),
            'quick': {'figure': {'num_draws': 50}},
        }
    )
