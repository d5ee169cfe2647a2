"""The paper's equations as printed, class by class, in float64; independent of the package and slow."""

from __future__ import annotations

import math

import numpy as np


def norm(v, eps):
    length = math.sqrt(sum(float(a) * float(a) for a in v))
    return v / max(length, eps)


def simplex(a):
    return a / a.sum()


def sight_as_printed(z, p, weight, beta=1.0, tau=0.05, eta_mu=0.005, eta_h=0.05, omega_mu=0.01, eps=1e-8):
    z, p = np.asarray(z, np.float64), np.asarray(p, np.float64)
    classes = len(weight)
    source = [norm(np.asarray(row, np.float64), eps) for row in weight]
    mu = list(source)
    habit = np.full(classes, 1 / classes)
    predictions, surprises, q = [], [], None
    for t in range(len(z)):
        seen = norm(z[t], eps)
        lam = 0.0
        if q is None:
            q_new = p[t].copy()
        else:
            expected = norm(sum(q[k] * mu[k] for k in range(classes)), eps)
            distance = 1 - float(seen @ expected)
            lam = 1 - math.exp(-beta * distance**2)
            v = norm(seen - expected, eps)
            scores = [float(v @ norm(mu[k] - expected, eps)) / tau for k in range(classes)]
            top = max(scores)
            routing = np.array([math.exp(s - top) for s in scores])
            routing /= routing.sum()
            flattened = simplex(np.sqrt(habit + eps))
            calibrated = simplex(routing * flattened)
            prior = (1 - lam) * q + lam * calibrated
            joint = p[t] * prior
            q_new = p[t].copy() if joint.sum() < 1e-30 else simplex(joint)
        q = q_new
        habit = (1 - eta_h) * habit + eta_h * q
        for k in range(classes):
            moved = norm((1 - eta_mu * q[k]) * mu[k] + eta_mu * q[k] * seen, eps)
            mu[k] = norm((1 - omega_mu) * moved + omega_mu * source[k], eps)
        predictions.append(q.copy())
        surprises.append(lam)
    return np.array(predictions), np.array(surprises), np.array(mu), habit
