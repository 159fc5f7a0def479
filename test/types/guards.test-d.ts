/** Checked by the compiler: idempotency keys, transactions and old inputs follow the definition's input. */
import { defineBatchJob, defineJob, type Millrace } from 'millrace'
import { z } from 'zod'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
function same<A, B>(_proof: Equal<A, B>): void {}

const input = z.object({ order: z.string(), at: z.iso.datetime().transform((text) => new Date(text)) })
type Raw = { order: string; at: string }

export const charge = defineJob({
  name: 'charge',
  input,
  version: 2,
  transactional: true,
  idempotency: {
    key: (raw) => {
      same<typeof raw, Raw>(true)
      return raw.order
    },
    ttl: '30d',
  },
  upgrade: (old, from) => {
    same<typeof old, unknown>(true)
    same<typeof from, number>(true)
    return { order: String(old), at: '2030-01-01T00:00:00Z' }
  },
  async run({ order, at }, { idempotencyKey, tx }) {
    same<typeof at, Date>(true)
    same<typeof idempotencyKey, string>(true)
    const plain = await tx()
    same<typeof plain, unknown>(true)
    const typed = await tx<{ exec(sql: string): void }>()
    typed.exec('SELECT 1')
    return order
  },
})

export const later = defineJob({
  name: 'later',
  input,
  version: 1,
  upgrade: async (old) => ({ order: String(old), at: '2030-01-01T00:00:00Z' }),
  run: () => {},
})

// @ts-expect-error the schema takes a text, not the date that `upgrade` gives
export const wrong = defineJob({
  name: 'wrong',
  input,
  version: 1,
  upgrade: (old) => ({ order: String(old), at: new Date() }),
  run: () => {},
})

export const unkeyed = defineJob({
  name: 'unkeyed',
  // @ts-expect-error every input has a key
  idempotency: { key: (order: { id?: string }) => order.id },
  run: (_: { id?: string }) => {},
})

export const batch = defineBatchJob({
  name: 'batch',
  input,
  idempotency: { key: ({ order }) => order },
  version: 1,
  upgrade: (old) => ({ order: String(old), at: '2030-01-01T00:00:00Z' }),
  run: (orders) => orders.map(({ at }) => at.getTime()),
})

// @ts-expect-error a batch has no transaction
export const together = defineBatchJob({
  name: 'together',
  transactional: true,
  run: (_: number[]) => {},
})

export async function typesFollow(mill: Millrace): Promise<void> {
  const result = await mill.idempotent('k', async ({ idempotencyKey, signal }) => {
    same<typeof signal, AbortSignal>(true)
    return { key: idempotencyKey }
  })
  same<typeof result, { key: string }>(true)
  const beginning = await mill.idempotency.begin<number>('k')
  if (beginning.status === 'begun') await beginning.complete(1)
  // @ts-expect-error a number was announced
  if (beginning.status === 'begun') await beginning.complete('one')
  if (beginning.status === 'done') same<typeof beginning.result, number>(true)
  if (beginning.status === 'busy') same<typeof beginning.retryIn, number>(true)
  mill.on('completed', ({ stored }) => same<typeof stored, true | undefined>(true))
}
