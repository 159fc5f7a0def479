// One measurement in a process of its own: node child.mjs '{ "module", "measure", "options" }'.
// The answer goes back over the channel; what the measurement left running ends with the process.

// A parent that was killed must not leave a measurement behind.
process.on('disconnect', () => process.exit(1))

const { module, measure, options } = JSON.parse(process.argv[2])
const measurements = await import(new URL(module, import.meta.url))
try {
  const answer = await measurements[measure](options)
  process.send({ answer }, () => process.exit(0))
} catch (error) {
  process.send({ problem: error.stack ?? String(error) }, () => process.exit(1))
}
