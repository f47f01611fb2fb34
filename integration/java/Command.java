/** What a request makes the peer do. */
interface Command {
    /**
     * Does it, and returns the words of the reply; {@link #TIMEOUT} says that a wait came to nothing. It may
     * block: other requests go on.
     */
    Words run(Words arguments) throws Exception;

    Words TIMEOUT = new Words();
    Words DONE = Words.of();

    /**
     * The name of the thread to run on: commands of the same name run there one after the other, in the order
     * of their requests, as locks that belong to a thread need it. Null is a thread for this request alone.
     */
    default String thread(Words arguments) {
        return null;
    }

    /** A command that runs on the thread named by an argument; if that is left out, by the first argument. */
    static Command onThread(int index, Command command) {
        return new Command() {
            @Override
            public Words run(Words arguments) throws Exception {
                return command.run(arguments);
            }

            @Override
            public String thread(Words arguments) {
                return arguments.text(index, arguments.text(0));
            }
        };
    }
}
