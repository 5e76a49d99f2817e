package com.fasterxml.jackson.datatype.jsr310;

import com.fasterxml.jackson.databind.module.SimpleModule;

/** Stands for the class of the same name, which Debian does not package. For compiling only. */
public class JavaTimeModule extends SimpleModule {}
