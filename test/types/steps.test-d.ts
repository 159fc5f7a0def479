/** Checked by the compiler: steps, waits and sagas keep their types. */
import { defineJob } from 'millrace'
import { defineSaga, saga } from 'millrace/saga'
import { z } from 'zod'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
function same<A, B>(_proof: Equal<A, B>): void {}

export const steps = defineJob({
  name: 'steps',
  async run(_: null, { step }) {
    const charge = await step('charge', async ({ key }) => {
      same<typeof key, string>(true)
      return { id: 'ch_1' }
    })
    same<typeof charge, { id: string }>(true)
    const rest = await step.sleep('2d')
    same<typeof rest, void>(true)
    const sure = await step.waitFor<number>('k')
    same<typeof sure, number>(true)
    const late = await step.waitFor<number>('k', { timeout: '1h' })
    same<typeof late, number | undefined>(true)
    const parsed = await step.waitFor('k', { schema: z.object({ n: z.string().transform(Number) }) })
    same<typeof parsed, { n: number }>(true)
    const maybe = await step.waitFor('k', { schema: z.string(), timeout: 5 })
    same<typeof maybe, string | undefined>(true)
    const list = await step.all([() => step('a', () => 1), step('b', () => 'x'), async () => true])
    same<typeof list, [number, string, boolean]>(true)
    const record = await step.all({ a: () => step('a', () => 1), b: step.waitFor<Date>('k') })
    same<typeof record, { a: number; b: Date }>(true)
    const first = await step.race([
      () => step('a', () => 1),
      step.waitFor<Date>('k'),
      step.waitFor('l', { timeout: 1, schema: z.string() }),
    ])
    same<typeof first, number | Date | string | undefined>(true)
    // @ts-expect-error the parts of a race are a list
    await step.race({ a: step.sleep(1) })
    const rows = await step.transaction('rows', (tx: { run(sql: string): number }) => tx.run('…'))
    same<typeof rows, number>(true)
    // @ts-expect-error a step needs a name
    await step(() => 1)
    // @ts-expect-error no such option
    await step.sleep('1s', { label: 'x' })
    return charge
  },
})

export const built = saga({ name: 'built', input: z.object({ n: z.string().transform(Number) }) })
  .step('one', {
    run: ({ input, results }) => {
      same<typeof input, { n: number }>(true)
      // @ts-expect-error nothing has been done yet
      void results.one
      return { order: input.n }
    },
    compensate: ({ result }) => same<typeof result, { order: number } | undefined>(true),
  })
  .step('two', {
    run: async ({ results }) => {
      same<typeof results.one, { order: number }>(true)
      return 'x'
    },
    irreversible: true,
  })
  .define()
type Built = Awaited<ReturnType<typeof built.run>>
same<Extract<Built, { one: unknown }>, { readonly one: { order: number }; readonly two: string }>(true)

// @ts-expect-error neither undone nor irreversible
saga({ name: 'lacking' }).step('one', { run: () => 1 })

export const listed = defineSaga<{ who: string }, { seat: number; meal: string }>({
  name: 'listed',
  steps: [
    {
      name: 'seat',
      run: ({ input }) => input.who.length,
      compensate: ({ result }) => void result?.toFixed(),
    },
    { name: 'meal', run: ({ results }) => `for ${results.seat}`, irreversible: true },
    // @ts-expect-error a meal is text
    { name: 'meal', run: () => 7, irreversible: true },
  ],
})
