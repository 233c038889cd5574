"""Tapes of episodes: recorded beside the env that is stepped, played again in another env, here or elsewhere."""
