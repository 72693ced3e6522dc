"""A Transformer in plain Python, only `math` and `random`: it learns 삼백이십오 -> 325.

Figure 1 of "Attention Is All You Need" with one layer on each side and its own backward pass. Each
operation has its equation and the gradients of its inputs: dx is the derivative of the loss by x,
d that by the result. `python -m jumok.course.microjumok` trains it.

Shapes: S source tokens, T target tokens, D width, H heads, K = D / H, F d_ff, V vocabulary.
"""

import math
import random

PIECES = ["[BOS]", "[EOS]", *"일이삼사오육칠팔구십백", *"0123456789"]
MAPS = ("query", "key", "value", "output")  # W^Q, W^K, W^V of all heads, and W^O
ENCODER = ("encoder.self_attention", "encoder.feed_forward")
DECODER = ("decoder.self_attention", "decoder.cross_attention", "decoder.feed_forward")
TAPE = []  # every result, in the order of the computation


class Matrix:
    """Rows of numbers, one for each position; `back` passes its gradient on to its inputs."""

    def __init__(self, rows, back=lambda d: None):
        self.rows, self.back, self.grad = rows, back, [[0.0] * len(rows[0]) for _ in rows]
        TAPE.append(self)

    def add_grad(self, d):  # the sum rule: what is used twice gets the sum of both gradients
        self.grad = [plus(g, more) for g, more in zip(self.grad, d)]

    def backward(self):  # the chain rule: from this loss (1, 1) back to its first inputs
        self.grad = [[1.0]]
        while TAPE:
            latest = TAPE.pop()
            latest.back(latest.grad)


def plus(a, b):
    return [x + y for x, y in zip(a, b)]


def dot(a, b):
    return sum([x * y for x, y in zip(a, b)])


def times(a, b):
    return [[dot(row, column) for column in zip(*b)] for row in a]  # A B


def transposed(a):
    return [list(column) for column in zip(*a)]  # A^T


def softmax(scores):
    largest = max(scores)  # without it exp overflows
    powers = [math.exp(s - largest) for s in scores]
    total = sum(powers)
    return [p / total for p in powers]  # exp(s_i) / sum_j exp(s_j)


def embed(table, ids):
    """E[ids] sqrt(D) + PE (3.4, 3.5): table (V, D) -> (T, D)."""
    D, rows = len(table.rows[0]), []
    for t, token in enumerate(ids):
        angles = [t / 10_000 ** ((i - i % 2) / D) for i in range(D)]  # PE: sin, cos, sin, ...
        places = [math.cos(a) if i % 2 else math.sin(a) for i, a in enumerate(angles)]
        rows.append(plus([e * math.sqrt(D) for e in table.rows[token]], places))

    def back(d):
        for token, row in zip(ids, d):  # dE[id] = d sqrt(D), summed over the places of the id
            table.grad[token] = plus(table.grad[token], [x * math.sqrt(D) for x in row])

    return Matrix(rows, back)


def linear(x, w, b):
    """x W^T + b: x (T, D), W (F, D), b (1, F) -> (T, F)."""

    def back(d):
        x.add_grad(times(d, w.rows))  # dx = d W
        w.add_grad(times(transposed(d), x.rows))  # dW = d^T x
        b.add_grad([[sum(column) for column in zip(*d)]])  # db = the sum of d over positions

    rows = [plus([dot(row, each) for each in w.rows], b.rows[0]) for row in x.rows]
    return Matrix(rows, back)


def attention(q, k, v, H, causal):
    """softmax(Q K^T / sqrt(K)) V, (1), in H heads side by side (3.2.2), perhaps causal (3.2.3)."""
    S, K = len(k.rows), len(q.rows[0]) // H
    weights, outputs = [], []

    def head(rows, h):
        return [row[h * K : (h + 1) * K] for row in rows]

    for h in range(H):
        W = []  # (T, S)
        for t, scores in enumerate(times(head(q.rows, h), transposed(head(k.rows, h)))):  # Q K^T
            seen = t + 1 if causal else S
            W.append(softmax([s / math.sqrt(K) for s in scores[:seen]]) + [0.0] * (S - seen))
        weights.append(W)
        outputs.append(times(W, head(v.rows, h)))  # W V

    def back(d):
        dq, dk, dv = [], [], []
        for h, W in enumerate(weights):
            dW = times(head(d, h), transposed(head(v.rows, h)))  # dW = d V^T
            dS = [  # through the softmax and the scale: dS = W (dW - W · dW) / sqrt(K)
                [w * (g - dot(row, grads)) / math.sqrt(K) for w, g in zip(row, grads)]
                for row, grads in zip(W, dW)
            ]
            dq.append(times(dS, head(k.rows, h)))  # dQ = dS K
            dk.append(times(transposed(dS), head(q.rows, h)))  # dK = dS^T Q
            dv.append(times(transposed(W), head(d, h)))  # dV = W^T d
        for matrix, heads in ((q, dq), (k, dk), (v, dv)):
            matrix.add_grad([sum(parts, []) for parts in zip(*heads)])  # side by side

    return Matrix([sum(parts, []) for parts in zip(*outputs)], back)  # Concat(head_1, ...)


def relu(x):
    """max(0, x), inside equation (2)."""

    def back(d):  # dx = d where x > 0
        x.add_grad([[g * (a > 0) for a, g in zip(*both)] for both in zip(x.rows, d)])

    return Matrix([[max(0.0, a) for a in row] for row in x.rows], back)


def add_norm(x, y, gain, bias):
    """LayerNorm(x + y), y = Sublayer(x) (3.1): n = (x + y - mean) / std, gain n + bias."""
    D, normed, stds = len(x.rows[0]), [], []
    for row in map(plus, x.rows, y.rows):
        mean = sum(row) / D
        std = math.sqrt(sum([(a - mean) ** 2 for a in row]) / D + 1e-5)
        normed.append([(a - mean) / std for a in row])
        stds.append(std)

    def back(d):
        dx = []
        for n, row, std in zip(normed, d, stds):
            dn = [a * g for a, g in zip(row, gain.rows[0])]  # dn = d gain
            mean, slope = sum(dn) / D, dot(dn, n) / D
            dx.append([(a - mean - b * slope) / std for a, b in zip(dn, n)])
            gain.add_grad([[a * b for a, b in zip(row, n)]])  # dgain = d n
            bias.add_grad([row])  # dbias = d
        x.add_grad(dx)  # dx = dy = (dn - mean(dn) - n mean(dn n)) / std
        y.add_grad(dx)

    rows = [plus([a * g for a, g in zip(n, gain.rows[0])], bias.rows[0]) for n in normed]
    return Matrix(rows, back)


def cross_entropy(logits, targets):
    """-mean of log p[target], p = softmax(logits): (T, V) -> (1, 1)."""
    P, T = [softmax(row) for row in logits.rows], len(targets)

    def back(d):  # dlogits = (p - one-hot(target)) / T
        rows = [[p - (i == y) for i, p in enumerate(row)] for row, y in zip(P, targets)]
        logits.add_grad([[d[0][0] * g / T for g in row] for row in rows])

    return Matrix([[-sum(math.log(row[y]) for row, y in zip(P, targets)) / T]], back)


class Transformer:
    """Figure 1, one layer on each side; source and target share the embedding (3.4)."""

    def __init__(self, n_tokens, D=16, H=2, F=32):
        self.H, self.weights = H, {"embedding.weight": normal(n_tokens, D)}
        self.weights["embedding.bias"] = Matrix([[0.0] * n_tokens])  # of the output
        for block in (*ENCODER, *DECODER):
            for name in ("up", "down") if "feed" in block else MAPS:
                outputs, inputs = F if name == "up" else D, F if name == "down" else D
                self.weights[f"{block}.{name}.weight"] = normal(outputs, inputs)
                self.weights[f"{block}.{name}.bias"] = Matrix([[0.0] * outputs])
            self.weights[f"{block}_norm.weight"] = Matrix([[1.0] * D])
            self.weights[f"{block}_norm.bias"] = Matrix([[0.0] * D])

    def __call__(self, source, target):  # S ids, T ids -> logits of each next token (T, V)
        x, y = (embed(self.weights["embedding.weight"], some) for some in (source, target))
        x = self.feed_forward(self.attend(x, x, ENCODER[0]), ENCODER[1])
        y = self.attend(y, y, DECODER[0], causal=True)
        y = self.attend(y, x, DECODER[1])  # queries of the decoder, keys and values of the encoder
        return linear(self.feed_forward(y, DECODER[2]), *self.both("embedding"))  # y E^T (3.4)

    def attend(self, x, source, name, causal=False):
        """Multi-head attention: the heads of equation (1), then W^O (3.2.2), Add & Norm."""
        maps = zip((x, source, source), MAPS)
        q, k, v = (linear(each, *self.both(f"{name}.{n}")) for each, n in maps)
        output = linear(attention(q, k, v, self.H, causal), *self.both(f"{name}.output"))
        return add_norm(x, output, *self.both(f"{name}_norm"))

    def feed_forward(self, x, name):
        """max(0, x W1 + b1) W2 + b2, equation (2), then Add & Norm."""
        hidden = relu(linear(x, *self.both(f"{name}.up")))  # (T, F)
        output = linear(hidden, *self.both(f"{name}.down"))  # (T, D)
        return add_norm(x, output, *self.both(f"{name}_norm"))

    def both(self, name):
        return self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]

    def greedy(self, source, longest=4):  # the most probable next token until [EOS]
        target = [0]  # [BOS]
        while target[-1] != 1 and len(target) <= longest:
            newest = self(source, target).rows[-1]
            target.append(newest.index(max(newest)))
        TAPE.clear()  # no gradients are needed
        return target[1:]


def normal(outputs, inputs):
    return Matrix([[random.gauss(0, inputs**-0.5) for _ in range(inputs)] for _ in range(outputs)])


def adam(model, step, rate, moments):  # 5.3, with beta 0.9 and 0.98; then gradients are 0
    for name, w in model.weights.items():
        first, second = moments.setdefault(name, [[[0.0] * len(r) for r in w.rows] for _ in "mv"])
        for row, grads, ms, vs in zip(w.rows, w.grad, first, second):
            for i, g in enumerate(grads):
                ms[i], vs[i], grads[i] = 0.9 * ms[i] + 0.1 * g, 0.98 * vs[i] + 0.02 * g * g, 0.0
                mean, square = ms[i] / (1 - 0.9**step), vs[i] / (1 - 0.98**step)
                row[i] -= rate * mean / (math.sqrt(square) + 1e-9)


def pair(n):
    """325 -> the ids of 삼백이십오, and of 325 between [BOS] and [EOS]; n from 1 to 999."""
    places = ((n // 100, "백"), (n // 10 % 10, "십"), (n % 10, ""))
    one = {"백": "", "십": "", "": "일"}  # 100 is 백, not 일백
    korean = [(one[u] if d == 1 else "이삼사오육칠팔구"[d - 2]) + u for d, u in places if d]
    return [*map(PIECES.index, "".join(korean))], [0, *map(PIECES.index, str(n)), 1]


def train(numbers, steps, rate=0.01, batch=5):  # the learning rate falls to 0
    model, moments = Transformer(len(PIECES)), {}
    for step in range(1, steps + 1):
        for source, target in map(pair, random.sample(numbers, batch)):
            loss = cross_entropy(model(source, target[:-1]), target[1:])
            loss.backward()  # the gradients of a batch add up
        adam(model, step, rate * (1 - step / steps), moments)
        if step % 50 == 0:
            print(f"step {step}  loss of the last number {loss.rows[0][0]:.4f}")
    return model


if __name__ == "__main__":
    random.seed(0)
    learned = random.sample(range(1, 1000), 100)
    model = train(learned, steps=1000)
    for name, some in (("learned", {*learned}), ("unseen", {*range(1, 1000)} - {*learned})):
        right = sum(model.greedy(pair(n)[0]) == pair(n)[1][1:] for n in some)
        print(f"{name}: {right} of {len(some)} right")
