FROM python:3.13-slim
WORKDIR /app
COPY pyproject.toml README.md LICENSE ./
COPY constraints constraints
COPY src src
COPY examples examples
RUN pip install --no-cache-dir --constraint constraints/dev.txt ".[postgresql,fast]"
# Where the data is unless GREENROOM_DATABASE_URL says otherwise: mount a volume to keep it.
RUN install --directory --owner=nobody /data
ENV GREENROOM_DATABASE_URL=sqlite:////data/greenroom.db
USER nobody
# A container is reached from outside itself; which hosts may be named is a setting.
CMD ["greenroom", "run", "examples.shopping_cart.service:service", "--host", "0.0.0.0"]
