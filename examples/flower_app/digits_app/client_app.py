"""The client's side: trains as the server's strategy says."""

from digits_app.task import load_data, make_model
from understudy.flower import client_app

app = client_app(make_model, load_data)
