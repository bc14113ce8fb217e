"""A hospital's own routing settings on a trained super model."""

import pytest
from super_models import random_super_model

from fedsuper.errors import FedSuperError
from fedsuper.inference.overrides import override_prediction, with_routing
from fedsuper.inference.predictor import Predictor


def test_settings_change_and_weights_are_shared():
    model = random_super_model(routing={"epochs": 3})
    other = with_routing(model, epochs=1, level="global")
    assert model.manifest["study"]["routing"]["epochs"] == 3
    assert other.manifest["study"]["routing"] == model.manifest["study"]["routing"] | {"epochs": 1, "level": "global"}
    assert other.global_model is model.global_model


def test_the_shape_term_is_off_by_one_word():
    model = override_prediction(random_super_model(), ["routing.shape=false", "routing.epochs=4"])
    routing = Predictor(model).study.routing
    assert routing.shape is False and routing.epochs == 4
    assert override_prediction(model, []) is model


@pytest.mark.parametrize("override", ["image_size=64", "model.norm=batch", "routing"])
def test_what_belongs_to_training_is_refused(override):
    with pytest.raises(FedSuperError, match="keys of routing, modes, prediction only"):
        override_prediction(random_super_model(), [override])


def test_a_misspelled_setting_is_named():
    with pytest.raises(FedSuperError, match="routing.shap"):
        override_prediction(random_super_model(), ["routing.shap=false"])
