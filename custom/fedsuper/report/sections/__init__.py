"""The report's sections, one file each: it reads what its runs hold, draws it and writes it.

To add one, write a file with a `build` function and name it here (docs/how-to/add-a-section.md).
"""

from __future__ import annotations

from fedsuper.report.sections.base import Build
from fedsuper.report.sections.making import (
    costs,
    flatness,
    handed_over,
    inversion_attack,
    provenance,
    selector,
    site_by_model,
    training,
    tuning,
)
from fedsuper.report.sections.scores import (
    boundaries,
    by_setting,
    examples,
    gallery,
    inside_count,
    measurements,
    outside_hospital,
    per_patient,
    results,
    significance,
    single_images,
    test_time_routing,
    unseen,
)

# In the order of the page.
SECTIONS: list[Build] = [
    results.build,
    significance.build,
    boundaries.build,
    measurements.build,
    per_patient.build,
    single_images.build,
    by_setting.build,
    training.build,
    site_by_model.build,
    unseen.build,
    inside_count.build,
    test_time_routing.build,
    outside_hospital.build,
    selector.build,
    handed_over.build,
    flatness.build,
    examples.build,
    gallery.build,
    inversion_attack.build,
    tuning.build,
    costs.build,
    provenance.build,
]
