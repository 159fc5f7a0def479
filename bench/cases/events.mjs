const beside = (engine, name, measure, jobs) => ({
  engine,
  name: `events: ${name}`,
  jobs,
  peerName: 'a bare INSERT',
  millrace: { module: './events.mjs', measure, options: { engine } },
  peer: { module: './peers/bare-insert.mjs', measure, options: { engine } },
  figures: [{ value: 'rate', unit: 'events/s' }],
  server: engine === 'postgres' ? 'postgres' : undefined,
})

export const events = ['sqlite', 'postgres'].flatMap((engine) => [
  beside(engine, 'append, one at a time', 'appendEach', 3_000),
  beside(engine, 'append, 500 at a time', 'appendBursts', 50_000),
  beside(engine, 'a projection, a row for each', 'project', 20_000),
])
