"""Q-learning and SARSA beside a cliff, in plain NumPy, without RLlib and torch.

Q-learning finds the shortest way, along the edge. It explores there, too, and falls: look at its worst episodes.
"""

import argparse

import gymnasium as gym
import numpy as np
from ray import tune

import tune_media as tm


def choose(values, state, epsilon, rng):
    if rng.random() < epsilon:
        return int(rng.integers(4))
    return int(rng.choice(np.flatnonzero(values[state] == values[state].max())))


def play(env, values, config, rng, seed=None, learns=True):
    """Play one episode, which explores in any case; return the sum of its rewards."""
    state, _ = env.reset(seed=seed)
    action, total, over = choose(values, state, config["epsilon"], rng), 0.0, False
    while not over:
        next_state, reward, terminated, truncated, _ = env.step(action)
        next_action = choose(values, next_state, config["epsilon"], rng)
        if learns:
            expected = values[next_state].max() if config["method"] == "q_learning" else values[next_state, next_action]
            target = reward + (0.0 if terminated else expected)
            values[state, action] += 0.5 * (target - values[state, action])
        state, action, total, over = next_state, next_action, total + reward, terminated or truncated
    return total


def facts(step):
    """Return the rows between the agent and the cliff, and whether it fell in this step."""
    return {"above_cliff": 3 - int(step.observation) // 12, "falls": int(step.reward == -100)}


def train(config):
    rng, values = np.random.default_rng(0), np.zeros((48, 4))
    env = gym.make("CliffWalking-v1", max_episode_steps=200)
    recorded = gym.make("CliffWalking-v1", render_mode="rgb_array", max_episode_steps=200)
    recorded = tm.gym.RecordEpisodes(recorded, keep=("best", "worst"), collect=facts, video=tm.VideoOptions(height=160))
    for _ in range(config["reports"]):
        for _ in range(60):
            play(env, values, config, rng)
        returns = [play(recorded, values, config, rng, seed, learns=False) for seed in range(config["episodes"])]
        tune.report({"episode_return_mean": float(np.mean(returns)), "evaluation": {"episodes": recorded.take()}})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--storage", default=None, help="folder or URI for results; default: ~/ray_results")
    parser.add_argument("--reports", type=int, default=8, help="reports of each trial")
    parser.add_argument("--episodes", type=int, default=10, help="episodes of each evaluation")
    args = parser.parse_args()
    results = tune.Tuner(
        train,
        param_space={
            "method": tune.grid_search(["q_learning", "sarsa"]),
            "epsilon": tune.grid_search([0.05, 0.2]),
            "reports": args.reports,
            "episodes": args.episodes,
        },
        tune_config=tune.TuneConfig(trial_dirname_creator=tm.short_trial_names),
        run_config=tune.RunConfig(
            name="cliff_walking",
            storage_path=args.storage,
            callbacks=[tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()],
        ),
    ).fit()
    catalog = tm.load(results.experiment_path)
    print(catalog.compare()[["config/method", "config/epsilon", "mean"]].to_string(index=False))
    for row in catalog:
        if row["key"] == "episodes/worst" and row["step"] == args.reports:
            print(row["trial"], "worst return", row["episode_return"], row["file"])
