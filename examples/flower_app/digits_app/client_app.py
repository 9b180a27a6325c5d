"""The ClientApp: trains by the settings of the strategy."""

from digits_app.task import load_data, make_model
from understudy.flower import client_app

app = client_app(make_model, load_data)
