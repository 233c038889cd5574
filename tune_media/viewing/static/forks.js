// Forks on the page: where an episode was forked, and the seeds that continuations do not have.
(function (tm) {
  "use strict";

  /** The step at which a trial's episodes were forked; null: they were not. */
  const forkedAt = (trial) => trial.fork?.at ?? null;

  /** What a trial of a fork is called beside the others; of any other trial nothing. */
  const titleOf = ({ fork }) => fork && (fork.at == null ? "original" : `forked at ${fork.at}`);

  /** The seed of a clip's episode. A continuation has none: it has a number, and the world of its original. */
  const seedOf = (clip) => (forkedAt(clip.trial) == null ? clip.seed : null);

  /** Return what an episode began with: the checksum of its reset, or without a tape its seed; null if not known. */
  const startOf = (clip, details) => details?.start ?? (seedOf(clip) == null ? null : `seed ${clip.seed}`);

  /** Return the moment at which a clip's episode was forked, as a list. */
  function forkMoments(clip) {
    const step = forkedAt(clip.trial);
    return step == null ? [] : [{ step, kind: "fork", text: "forked here" }];
  }

  tm.forks = { forkedAt, titleOf, seedOf, startOf, forkMoments };
})((window.tuneMedia = window.tuneMedia || {}));
