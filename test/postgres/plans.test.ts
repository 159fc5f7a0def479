/** What the desk reads of tables that grow must cost what is read, whatever the server knows of them, which may be nothing. */
import { expect, test } from 'vitest'
import { planner } from '../../src/stores/postgres/functions.js'
import type { Value } from '../../src/stores/postgres/literal.js'
import { looking } from '../../src/stores/postgres/statements.js'
import { asAdmin, freshSchema, open } from './postgres.js'

type Asked = readonly [statement: string, values: readonly Value[]]

/** Of load.sql: those that read the next so many of what may be many, each in the order of an index. */
const pages: readonly Asked[] = [
  ['byState', [1, 0, 0, 10]],
  ['window', [1, 0, 0, 10]],
  ['linksAfter', [1, 'a', 10]],
  ['gateDue', [0, 0, 10]],
  ['gateFading', [0, 0, 10]],
  ['holdersByRank', [0, 0, 10]],
  ['guardsByRank', [0, 0, 10]],
  ['schedulesByLook', [0, 0, 10]],
  ['schedulesByTold', [0, 0, 10]],
  ['mailLine', ['a', 0, 10]],
  ['mailTime', [0, 0, 10]],
  ['spreading', [0, 10]],
]

/** Those that look for some by their keys, and may put what they found into another order. */
const keys: readonly Asked[] = [
  ['byIds', [['a', 'b']]],
  ['completed', [5, 0, 0, 10]],
  ['linksTo', [['a', 'b']]],
  ['linksBetween', [['a'], ['b']]],
  ['parentsOf', [['a', 'b']]],
  ['waitingFor', ['a', 0, 10]],
  ['placesOf', [['a', 'b']]],
  ['openSteps', [[1, 2]]],
  ['gatesByNum', [[1, 2]]],
  ['holders', [['a']]],
  ['guards', [['a']]],
  ['mail', [['a']]],
]

interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly Plans?: readonly Plan[]
}

test.each(pages)('%s goes along an index', async (name, values) => {
  const nodes = await nodesOf(name, values)
  expect(nodes.filter(({ isRead }) => isRead)).toEqual([])
  expect(nodes.filter(({ type }) => type.includes('Sort'))).toEqual([])
})

test.each(keys)('%s looks into indexes', async (name, values) => {
  expect((await nodesOf(name, values)).filter(({ isRead }) => isRead)).toEqual([])
})

interface Node {
  readonly type: string
  readonly of: string | undefined
  /** As a whole, or all of it that is like what is asked for. */
  readonly isRead: boolean
}

/** Of the plan for tables that nothing is known of, because they are new. */
async function nodesOf(name: string, values: readonly Value[]): Promise<Node[]> {
  const schema = freshSchema()
  await open({ schema })
  const text = looking(schema).bound(name, values)
  return asAdmin(async (client) => {
    await client.query('BEGIN')
    for (const setting of planner) await client.query(`SET LOCAL ${setting}`)
    const { rows } = await client.query(`EXPLAIN (FORMAT JSON) ${text}`)
    await client.query('ROLLBACK')
    return [...walk(rows[0]['QUERY PLAN'][0].Plan as Plan)]
  })
}

function* walk({ 'Node Type': type, 'Relation Name': of, Plans = [] }: Plan): Generator<Node> {
  yield { type, of, isRead: type === 'Seq Scan' || type.startsWith('Bitmap') }
  for (const plan of Plans) yield* walk(plan)
}
