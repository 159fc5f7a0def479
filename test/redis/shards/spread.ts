import type { NewJob, Store } from 'millrace'

/** A store that takes ids for ones that Millrace made, so that jobs are spread over its shards as those of users are. */
export function spread<S extends Store>(store: S): S {
  return new Proxy(store, {
    get(target, name) {
      if (name === 'insert')
        return (jobs: readonly NewJob[], tx?: unknown) => target.insert(jobs.map(asFresh), tx)
      const value = Reflect.get(target, name, target) as unknown
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/** Unless the test says otherwise. */
function asFresh(job: NewJob): NewJob {
  return { fresh: true, ...job }
}
