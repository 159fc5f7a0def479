/**
 * Erlang's list of the nodes of a machine, a private one: a node that finds none starts one that outlives it, and that
 * all other nodes of the machine would use too.
 */
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { epmdBinary } from './broker-binaries.js'
import { Daemon } from './daemon.js'
import { makeFolder } from './folder.js'
import { quietPort } from './port.js'
import { serverUser } from './user.js'

export interface Epmd {
  /** For nodes that are to use it. */
  readonly environment: Readonly<Record<string, string>>
  stop(): Promise<void>
}

export async function startEpmd(): Promise<Epmd> {
  const command = epmdBinary()
  const user = serverUser()
  const folder = makeFolder(user, 'pid')
  try {
    const port = await quietPort()
    const daemon = new Daemon({
      command,
      args: ['-port', String(port), '-address', '127.0.0.1'],
      user,
      log: join(folder.path, 'log'),
      ready: (pid) => {
        writeFileSync(folder.pidFile, `${pid}\n`)
        return listens(port)
      },
    })
    await daemon.start().catch(async (error) => {
      await daemon.kill()
      throw error
    })
    return {
      environment: { ERL_EPMD_PORT: String(port), ERL_EPMD_ADDRESS: '127.0.0.1' },
      stop: async () => {
        await daemon.kill()
        folder.remove()
      },
    }
  } catch (error) {
    folder.remove()
    throw error
  }
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
