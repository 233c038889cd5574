"""A game of two players: tic-tac-toe against random moves, with the win rate, and clips of bad games and of draws.

The sum of both returns says nothing of the player that learns, so trials are compared by its win rate.
"""

import argparse

import numpy as np
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.examples.envs.classes.multi_agent.tic_tac_toe import TicTacToe
from ray.rllib.examples.rl_modules.classes.random_rlm import RandomRLModule

import tune_media as tm
from tune_media import steps

COLORS = np.array([[40, 120, 200], [235, 235, 235], [200, 60, 40]], np.uint8)  # of player2, nobody, player1


class Game(TicTacToe):
    """RLlib's game, with its winner: 1 is player1, -1 player2, 0 nobody. Only who wins gets a reward above 0."""

    winner = 0

    def step(self, actions):
        observations, rewards, *ends = super().step(actions)
        self.winner = (rewards.get("player1", 0) > 0) - (rewards.get("player2", 0) > 0)
        return observations, rewards, *ends


def board(env):
    """Draw the board, which newer Rays keep as the player sees it whose turn it is, and older ones as player1 does."""
    game = env.unwrapped
    is_turned = hasattr(game, "WIN_LINES") and game.current_player == "player2"
    fields = np.reshape(game.board, (3, 3)) * (-1 if is_turned else 1)
    return COLORS[fields + 1].repeat(32, axis=0).repeat(32, axis=1)


def winner(step):
    """Return who has won. Returns do not tell: illegal moves have a penalty."""
    return {"winner": steps.final(step.env.unwrapped.winner)}


def won(episode):
    """Return whether player1 won; None, if nobody did, is in no rate."""
    return {1: True, -1: False}.get(episode.metrics["winner"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--storage", default=None, help="folder or URI for results; default: ~/ray_results")
    args = parser.parse_args()
    worst = tm.selection.worst(by="return/player1")
    draw = tm.selection.where(lambda episode: won(episode) is None, name="draw", limit=1)
    players = {"player1": RLModuleSpec(), "player2": RLModuleSpec(module_class=RandomRLModule)}
    config = (
        PPOConfig()
        .environment(Game)
        .env_runners(num_env_runners=0)
        .training(lr=tune.grid_search([1e-4, 1e-3]), train_batch_size=300, minibatch_size=100, num_epochs=2)
        .multi_agent(
            policies=set(players),
            policies_to_train=["player1"],
            policy_mapping_fn=lambda agent, episode, **kwargs: agent,
        )
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=players))
        .evaluation(evaluation_interval=1, evaluation_duration=10)
        .callbacks(tm.rllib.record_episodes(keep=[worst, draw], collect=winner, success=won, frame=board))
    )
    results = tune.Tuner(
        "PPO",
        param_space=config,
        run_config=tune.RunConfig(
            name="tic_tac_toe",
            storage_path=args.storage,
            stop={"training_iteration": 2},
            callbacks=[tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()],
        ),
    ).fit()
    catalog = tm.load(results.experiment_path)
    print(catalog.episodes()[["trial", "metrics/return/player1", "metrics/return/player2", "metrics/winner"]])
    print(catalog.compare(metric="success_rate")[["config/lr", "mean"]])
