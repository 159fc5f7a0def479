const peers = [
  ['postgres', 'graphile-worker'],
  ['postgres', 'pg-boss'],
  ['postgres', 'bullmq'],
  ['redis', 'bullmq'],
  ['redis', 'bee-queue'],
  ['sqlite', 'plainjob'],
  ['sqlite', 'liteque'],
  ['memory', 'p-queue'],
  ['memory', 'fastq'],
]

/** What users install, without the drivers. Less is better. */
export const install = peers.map(([engine, peerName]) => ({
  engine,
  name: 'install',
  jobs: 1,
  rounds: 1,
  peerName,
  millrace: { module: './install.mjs', measure: 'ownFootprint' },
  peer: { module: './install.mjs', measure: 'peerFootprint', options: { name: peerName } },
  figures: [
    { value: 'packages', label: 'dependencies', unit: 'packages' },
    { value: 'megabytes', label: 'size', unit: 'MB' },
  ],
}))
