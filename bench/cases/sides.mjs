// What cases are made of: Millrace's side, that of a peer, and the figure that most of them are about.

export const rate = (bar) => [{ value: 'rate', unit: 'jobs/s', bar }]

/** A measurement of Millrace; `rest` is what the case says beside its options. */
export function itself({ engine, options }, measure, more, rest) {
  return { module: './millrace.mjs', measure, options: { engine, ...options, ...more }, ...rest }
}

/** Makes cases of an engine. Both sides are given the same options; `peerOptions` are the peer's alone. */
export const againstPeers =
  (engine) =>
  (
    peerName,
    module,
    measure,
    { name, figures, peerOptions, jobs, mostJobs, seconds, rounds, ...options },
  ) => ({
    engine,
    name,
    jobs,
    mostJobs,
    seconds,
    rounds,
    peerName,
    millrace: itself({ engine }, measure, options),
    peer: { module: `./peers/${module}.mjs`, measure, options: { ...options, ...peerOptions } },
    figures,
  })
